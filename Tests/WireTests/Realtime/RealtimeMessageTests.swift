import TestSupport
import Testing
import Tree

@testable import Wire

@Suite struct RealtimeMessageTests {
    private func action(_ body: String, _ name: String) throws -> ClientAction {
        let text = "{\"t\":\"d\",\"d\":{\"r\":7,\"a\":\"\(name)\",\"b\":\(body)}}"
        guard case .request(let request) = try ClientMessageParser.parse(Array(text.utf8)) else {
            throw MessageError(reason: "no request")
        }
        #expect(request.number == 7)
        return request.action
    }

    private func isRefused(_ action: ClientAction) -> Bool {
        if case .refused(let reason) = action { !reason.isEmpty } else { false }
    }

    @Test func controlMessages() throws {
        guard case .ping = try ClientMessageParser.parse(Array("{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}".utf8))
        else {
            Issue.record("no ping")
            return
        }
        guard
            case .control("n") = try ClientMessageParser.parse(Array("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}".utf8))
        else {
            Issue.record("no control message")
            return
        }
    }

    @Test(arguments: [
        "", "0", "{}", "[]", "null", "{\"t\":\"d\"}", "{\"t\":\"d\",\"d\":[]}", "{\"t\":\"x\",\"d\":{}}",
        "{\"t\":\"d\",\"d\":{\"a\":\"s\"}}", "{\"t\":\"d\",\"d\":{\"r\":1}}",
        "{\"t\":\"d\",\"d\":{\"r\":\"1\",\"a\":\"s\"}}",
        "{\"t\":\"c\",\"d\":{}}", "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"s\"}} x",
        "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"s\"}",
    ]) func whatIsNoMessage(text: String) {
        #expect(throws: MessageError.self) { try ClientMessageParser.parse(Array(text.utf8)) }
    }

    @Test func namesOfWrites() throws {
        func request(_ name: String, _ member: String) throws -> ClientRequest? {
            let text = "{\"t\":\"d\",\"d\":{\"r\":7,\"a\":\"\(name)\",\"b\":{\"p\":\"a\",\"d\":{\"b\":1}\(member)}}}"
            guard case .request(let request) = try ClientMessageParser.parse(Array(text.utf8)) else { return nil }
            return request
        }
        for name in ["p", "m"] {
            #expect(try request(name, "")?.name == nil)
            #expect(try request(name, ",\"w\":\"writer-1.5\"")?.name == WriteName("writer-1.5"))
            for wrong in ["5", "null", "\"\"", "\"writer-1\"", "\"w.1\"", "[\"writer-1.5\"]"] {
                let request = try #require(try request(name, ",\"w\":\(wrong)"))
                #expect(isRefused(request.action) && request.name == nil, "\(wrong)")
            }
        }
        // A message that is not a write has no name.
        #expect(try request("o", ",\"w\":\"writer-1.5\"")?.name == nil)
    }

    @Test func paths() throws {
        for (text, keys) in [
            ("/a/b", ["a", "b"]), ("a/b", ["a", "b"]), ("//a//b/", ["a", "b"]), ("/", []), ("", []),
            ("%41 é", ["%41 é"]),
        ] {
            guard case .get(let path, nil) = try action("{\"p\":\"\(text)\",\"q\":{}}", "g") else {
                Issue.record("no get: \(text)")
                continue
            }
            #expect(path.keys.map(\.text) == keys)
        }
        for text in [
            "a.b", "$a", "a/#", "[0]", "\\u0001", String(repeating: "k", count: 769),
            String(repeating: "a/", count: 33),
        ] {
            #expect(isRefused(try action("{\"p\":\"\(text)\"}", "g")), "\(text)")
        }
        for body in ["{}", "{\"p\":5}", "{\"p\":null}"] { #expect(isRefused(try action(body, "g"))) }
    }

    @Test func theLastOfEqualFieldsCounts() throws {
        guard case .get(let path, _) = try action("{\"p\":\"a\",\"p\":\"b\"}", "g") else {
            Issue.record("no get")
            return
        }
        #expect(path == Path(splitting: "b"))
    }

    @Test func writes() throws {
        guard
            case .put(let path, let value, let hash, _) = try action(
                "{\"p\":\"/a/.priority\",\"d\":3,\"h\":\"x\"}", "p")
        else {
            Issue.record("no put")
            return
        }
        #expect(path.namesPriority && value.node == .int(3) && hash == "x")
        #expect(isRefused(try action("{\"p\":\"/a/.priority\",\"d\":true}", "p")))
        #expect(isRefused(try action("{\"p\":\"/a/.priority/b\",\"d\":1}", "p")))
        #expect(isRefused(try action("{\"p\":\"/a\"}", "p")))
        #expect(isRefused(try action("{\"p\":\"/a\",\"d\":1,\"h\":5}", "p")))
        guard
            case .merge(let base, let changes, let hasServerValue, nil, _) = try action(
                "{\"p\":\"/a\",\"d\":{\"b/c\":1,\"d\":{\".sv\":\"timestamp\"},\"e\":null}}", "m")
        else {
            Issue.record("no merge")
            return
        }
        #expect(base == Path(splitting: "a") && hasServerValue)
        #expect(changes.map(\.path.description) == ["/a/b/c", "/a/d", "/a/e"])
        #expect(isRefused(try action("{\"p\":\"/a\",\"d\":{\"b\":1,\"b/c\":2}}", "m")))
        #expect(isRefused(try action("{\"p\":\"/a\",\"d\":[1]}", "m")))
    }

    @Test func listensAreTheSameWhateverTheirTagAndText() throws {
        func target(_ body: String) throws -> ListenTarget {
            guard case .listen(let target, _, _, _) = try action(body, "q") else { throw MessageError(reason: body) }
            return target
        }
        let one = try target("{\"p\":\"/a\",\"q\":{\"l\":2,\"vf\":\"r\",\"i\":\".key\"},\"t\":1,\"h\":\"\"}")
        let same = try target("{\"p\":\"a\",\"q\":{\"i\":\".key\",\"vf\":\"r\",\"l\":2},\"t\":9}")
        #expect(one == same && one.hashValue == same.hashValue && one.tag == 1 && same.tag == 9)
        #expect(try one != target("{\"p\":\"/a\",\"q\":{\"l\":2,\"vf\":\"l\",\"i\":\".key\"},\"t\":1}"))
        #expect(try target("{\"p\":\"a\"}") == target("{\"p\":\"a\",\"q\":{\"i\":\"x\"}}"))
        #expect(isRefused(try action("{\"p\":\"a\",\"t\":\"1\"}", "q")))
    }

    @Test func compoundHashes() throws {
        guard
            case .listen(_, "h", let compound?, nil) = try action(
                "{\"p\":\"a\",\"h\":\"h\",\"ch\":{\"ps\":[\"x/y\",\"/\"],\"hs\":[\"1\",\"2\",\"\"]}}", "q")
        else {
            Issue.record("no listen")
            return
        }
        #expect(compound.posts == [Path(splitting: "x/y"), Path()] && compound.hashes == ["1", "2", ""])
        for bad in [
            "{\"ps\":[],\"hs\":[]}", "{\"ps\":[1],\"hs\":[\"\",\"\"]}", "{\"ps\":[\"a\"],\"hs\":[\"\"]}", "{}",
            "{\"hs\":[\"\"]}",
        ] {
            #expect(isRefused(try action("{\"p\":\"a\",\"ch\":\(bad)}", "q")), "\(bad)")
        }
    }

    @Test func theRest() throws {
        for name in ["s", "appcheck", "unappeck", "unappcheck", "unauth", "echo"] {
            #expect(!isRefused(try action("{}", name)), "\(name)")
        }
        #expect(isRefused(try action("{}", "nonsense")))
        #expect(isRefused(try action("{}", "auth")))
        guard
            case .authenticate(let login) = try action(
                "{\"cred\":\"owner\",\"authvar\":{\"uid\":\"x\"},\"noauth\":true}", "gauth")
        else {
            Issue.record("no login")
            return
        }
        #expect(login.credential == "owner" && login.isGoogle && login.isUnauthenticated)
        #expect(login.override.map { String(decoding: $0, as: UTF8.self) } == "{\"uid\":\"x\"}")
    }

    /// An echo, and the query in a cancel, are sent back as received: the fuzzer found texts that made them invalid
    /// JSON.
    @Test(arguments: ["1.5e-\"q\":07", "tru", "[1 2]", "{\"a\":}", "[\"\\x\"]", "{\"a\":[1,]}"])
    func whatGoesBackIsJSON(text: String) throws {
        #expect(isRefused(try action("{\"d\":\(text)}", "echo")), "\(text)")
        #expect(isRefused(try action("{\"p\":\"a\",\"q\":{\"l\":2,\"z\":\(text)}}", "q")), "\(text)")
    }

    /// Every input is a message, a refusal or an error.
    @Test(arguments: [11, 12, 13, 14] as [UInt64]) func noise(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let seeds = [
            "{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}",
            "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"q\",\"b\":{\"p\":\"/a\",\"q\":{\"sp\":1,\"sn\":\"x\",\"sin\":true,\"l\":2,\"vf\":\"r\",\"i\":\"k\"},\"t\":1,\"h\":\"\"}}}",
            "{\"t\":\"d\",\"d\":{\"r\":10,\"a\":\"m\",\"b\":{\"p\":\"/\",\"d\":{\"p/q\":1,\"r\":{\".sv\":{\"increment\":2}}}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":16,\"a\":\"p\",\"b\":{\"p\":\"/w\",\"d\":{\".value\":\"v\",\".priority\":\"hi\"}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":9,\"a\":\"q\",\"b\":{\"p\":\"x\",\"ch\":{\"hs\":[\"a\",\"\"],\"ps\":[\"b/c\"]}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":2,\"a\":\"gauth\",\"b\":{\"cred\":\"owner\",\"authvar\":{\"uid\":\"x\"}}}}",
        ].map { Array($0.utf8) }
        let parts = [
            "{", "}", "[", "]", "\"", ":", ",", "null", "1e9", "-", "\\u0000", "\\ud800", "é", ".sv", "q", "om",
        ].map { Array($0.utf8) }
        var understood = 0
        for _ in 0..<20_000 {
            var bytes = seeds[random.below(seeds.count)]
            for _ in 0..<random.below(4) where !bytes.isEmpty {
                let offset = random.below(bytes.count)
                switch random.below(4) {
                case 0: bytes[offset] = UInt8(random.below(256))
                case 1: bytes.removeSubrange(offset..<min(bytes.count, offset + 1 + random.below(8)))
                case 2: bytes.insert(contentsOf: parts[random.below(parts.count)], at: offset)
                default:
                    bytes.insert(contentsOf: bytes[offset..<min(bytes.count, offset + random.below(40))], at: offset)
                }
            }
            if (try? ClientMessageParser.parse(bytes)) != nil { understood += 1 }
        }
        #expect(understood > 1_000)
    }

    @Test(arguments: [21, 22] as [UInt64]) func noiseInPieces(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var assembler = SegmentAssembler(maxBytes: 4_096)
        for _ in 0..<20_000 {
            let frame = (0..<random.below(12)).map { _ in
                random.below(3) == 0 ? UInt8(random.below(256)) : UInt8(ascii: "0") + UInt8(random.below(10))
            }
            switch assembler.take(frame) {
            case .message(let bytes): #expect(bytes.count <= 4_096)
            case .error, .tooLong: assembler = SegmentAssembler(maxBytes: 4_096)
            case .nothing: break
            }
        }
    }
}
