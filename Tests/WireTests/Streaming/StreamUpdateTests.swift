import TestSupport
import Testing
import Tree
import Wire

/// Checks the updates of REST streams, as in the protocol reference (8) and as this server writes them.
@Suite struct StreamUpdateTests {
    private func update(_ name: String, _ data: String) throws -> StreamUpdate {
        try StreamUpdate(ServerSentEvent(name: name, data: Array(data.utf8)))
    }

    @Test func kinds() throws {
        #expect(
            try update("put", "{\"path\":\"/\",\"data\":{\"a\":1}}")
                == .change(.put(.root, Node(children: [(Key("a"), .int(1))]))))
        #expect(try update("put", "{\"data\":null,\"path\":\"/\"}") == .change(.put(.root, .null)))
        #expect(
            try update("patch", "{\"path\":\"/c\",\"data\":{\"foo\":true,\"x/y\":3}}")
                == .change(
                    .patch(
                        Path(splitting: "c"),
                        [
                            Change(path: Path(splitting: "foo"), value: .bool(true)),
                            Change(path: Path(splitting: "x/y"), value: .int(3)),
                        ])))
        #expect(try update("keep-alive", "null") == .keepAlive)
        #expect(try update("cancel", "null") == .cancel(reason: nil))
        #expect(try update("cancel", "\"Permission denied.\"") == .cancel(reason: "Permission denied."))
        #expect(
            try update("auth_revoked", "\"credential is no longer valid\"")
                == .authRevoked(reason: "credential is no longer valid"))
        #expect(
            try update("auth_revoked", "credential is no longer valid")
                == .authRevoked(reason: "credential is no longer valid"))
        #expect(try update("rules_debug", "\"text\"") == .rulesDebug("text"))
        #expect(try update("rules_debug", "bare text") == .rulesDebug("bare text"))
        #expect(try update("log", "{}") == .unknown(name: "log"))
    }

    /// Plain form turns some objects into arrays; the reader restores the objects.
    @Test func arraysAreChildren() throws {
        #expect(
            try update("put", "{\"path\":\"/\",\"data\":[null,\"a\",{\"b\":[1]}]}")
                == .change(.put(.root, try JSONParser.parse("{\"1\":\"a\",\"2\":{\"b\":{\"0\":1}}}"))))
    }

    @Test(arguments: [
        ("put", ""), ("put", "null"), ("put", "[]"), ("put", "{\"path\":\"/\"}"), ("put", "{\"data\":1}"),
        ("put", "{\"path\":5,\"data\":1}"), ("put", "{\"path\":\"/a.b\",\"data\":1}"),
        ("put", "{\"path\":\"/\",\"data\":{\"a.b\":1}}"), ("put", "{\"path\":\"/\",\"data\":tru}"),
        ("put", "{\"path\":\"/\",\"data\":{\".sv\":\"timestamp\"}}"),
        ("put", "{\"path\":\"/.priority\",\"data\":true}"),
        ("patch", "{\"path\":\"/\",\"data\":null}"), ("patch", "{\"path\":\"/\",\"data\":5}"),
        ("patch", "{\"path\":\"/\",\"data\":{\"a\":1,\"a/b\":2}}"),
    ]) func whatIsNoUpdate(name: String, data: String) {
        #expect(throws: MessageError.self) { try update(name, data) }
    }

    /// Changes are read back unchanged from the server's own text.
    @Test(arguments: [311, 312, 313, 314] as [UInt64]) func roundTrip(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        var parser = EventStreamParser(maxBytes: 1 << 20)
        for round in 0..<300 {
            let change = generator.change()
            var events: [ServerSentEvent] = []
            try parser.take(StreamEvent.encode(change, id: "s.\(round)", form: .export), into: &events)
            #expect(events.count == 1 && parser.lastEventID == "s.\(round)")
            #expect(try StreamUpdate(try #require(events.first)) == .change(change), "seed \(seed), round \(round)")
        }
    }

    /// Plain form loses only priorities.
    @Test(arguments: [321, 322] as [UInt64]) func plainForm(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<300 {
            let value = generator.tree(depth: 3)
            var parser = EventStreamParser(maxBytes: 1 << 20)
            var events: [ServerSentEvent] = []
            try parser.take(StreamEvent.encode(.put(.root, value), id: "1", form: .plain), into: &events)
            let plain = try JSONParser.parse(JSONWriter.encode(value, form: .plain)).node
            #expect(try StreamUpdate(try #require(events.first)) == .change(.put(.root, plain)))
        }
    }

    @Test func theServersOtherEvents() throws {
        var parser = EventStreamParser(maxBytes: 1_000)
        var events: [ServerSentEvent] = []
        for text in [StreamEvent.keepAlive, StreamEvent.cancel, StreamEvent.authRevoked] {
            try parser.take(text, into: &events)
        }
        #expect(
            try events.map { try StreamUpdate($0) } == [
                .keepAlive, .cancel(reason: nil),
                .authRevoked(reason: "credential is no longer valid"),
            ])
    }
}
