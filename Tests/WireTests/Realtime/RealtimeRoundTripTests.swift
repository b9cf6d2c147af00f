import Testing
import Tree
import Wire

/// Checks that each side reads the other's messages as the same values, and writes them again as the same bytes.
@Suite struct RealtimeRoundTripTests {
    @Test(arguments: [101, 102, 103, 104] as [UInt64]) func serverMessages(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        for round in 0..<600 {
            let message = generator.serverMessage()
            let text = message.text
            let read = try ServerMessageParser.parse(text)
            #expect(read == message, "seed \(seed), round \(round): \(string(text))")
            #expect(read.text == text, "seed \(seed), round \(round)")
        }
    }

    @Test(arguments: [111, 112, 113, 114] as [UInt64]) func clientMessages(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        for round in 0..<600 {
            let message = generator.clientMessage()
            let text = try #require(message.text)
            let read = try ClientMessageParser.parse(text)
            #expect(read.withoutSizes == message.withoutSizes, "seed \(seed), round \(round): \(string(text))")
            #expect(read.text == text, "seed \(seed), round \(round)")
        }
    }

    /// A key that begins with a combining mark is one character with the slash before it.
    @Test func keysThatBeginWithCombiningMarks() throws {
        let path = Path([Key("\u{301}a"), Key("b")])
        let push = ServerMessage.push(.change(.put(path, .int(1)), tag: nil))
        #expect(try ServerMessageParser.parse(push.text) == push)
        let merge = ServerMessage.push(.change(.patch(.root, [Change(path: path, value: .int(1))]), tag: nil))
        #expect(try ServerMessageParser.parse(merge.text) == merge)
    }

    /// Checks the identity of a listen, and the additional data that it carries.
    @Test(arguments: [121, 122] as [UInt64]) func listenTargets(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        for _ in 0..<300 {
            let target = generator.target()
            let message = ClientMessage.request(
                ClientRequest(number: 1, action: .listen(target, hash: "", compound: nil)))
            let text = try #require(message.text)
            guard case .request(let request) = try ClientMessageParser.parse(text),
                case .listen(let read, _, _, _) = request.action
            else {
                Issue.record("no listen: \(string(text))")
                continue
            }
            #expect(read.path == target.path && read.query == target.query && read.tag == target.tag)
            #expect((read.queryText == nil) == (target.query == nil))
        }
    }

    @Test(arguments: [131, 132, 133] as [UInt64]) func queries(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        for _ in 0..<500 {
            let query = generator.query()
            let message = ClientMessage.request(ClientRequest(number: 1, action: .get(.root, query)))
            let text = try #require(message.text)
            guard case .request(let request) = try ClientMessageParser.parse(text),
                case .get(_, let read) = request.action
            else {
                Issue.record("no get: \(string(text))")
                continue
            }
            #expect(read == (query.selectsAll ? nil : query), "\(string(text))")
        }
    }

    /// Actions that only a reader produces have no message text.
    @Test func whatReadersComeToIsNoMessage() {
        for action in [ClientAction.denied, .refused("no")] {
            #expect(ClientMessage.request(ClientRequest(number: 1, action: action)).text == nil)
        }
    }
}

extension ClientMessage {
    /// A copy of the message without the byte counts of its data, which only a reader knows.
    fileprivate var withoutSizes: ClientMessage {
        guard case .request(let request) = self else { return self }
        switch request.action {
        case .put(let path, let value, let hash, _):
            return .request(
                ClientRequest(number: request.number, action: .put(path, value, hash: hash, byteCount: 0)))
        case .merge(let path, let changes, let hasServerValue, let hash, _):
            return .request(
                ClientRequest(
                    number: request.number,
                    action: .merge(path, changes, hasServerValue: hasServerValue, hash: hash, byteCount: 0)))
        default: return self
        }
    }
}
