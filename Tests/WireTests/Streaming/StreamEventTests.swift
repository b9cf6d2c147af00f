import TestSupport
import Testing
import Tree
import Wire

@Suite struct StreamEventTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func framing() throws {
        let value = try JSONParser.parse("{\"a\":1}")
        #expect(
            text(StreamEvent.encode(.put(.root, value), id: "7", form: .plain))
                == "event: put\nid: 7\ndata: {\"path\":\"/\",\"data\":{\"a\":1}}\n\n")
        #expect(
            text(StreamEvent.encode(.put(Path(splitting: "x/y"), .null), id: "8", form: .plain))
                == "event: put\nid: 8\ndata: {\"path\":\"/x/y\",\"data\":null}\n\n")
        let changes = [
            Change(path: Path(splitting: "foo"), value: .bool(true)),
            Change(path: Path(splitting: "x/y"), value: .int(3)),
        ]
        #expect(
            text(StreamEvent.encode(.patch(Path(splitting: "c"), changes), id: "9", form: .plain))
                == "event: patch\nid: 9\ndata: {\"path\":\"/c\",\"data\":{\"foo\":true,\"x/y\":3}}\n\n")
        #expect(text(StreamEvent.keepAlive) == "event: keep-alive\ndata: null\n\n")
    }

    /// SDKs compare the data of these events with fixed texts, byte by byte.
    @Test func theLastEventsAreThoseOfFirebase() {
        #expect(text(StreamEvent.cancel) == "event: cancel\ndata: null\n\n")
        #expect(text(StreamEvent.authRevoked) == "event: auth_revoked\ndata: credential is no longer valid\n\n")
    }

    /// Clients that read line by line expect `data:` right after `event:`.
    @Test func withoutAnIDEventsHaveTwoLines() throws {
        let value = try JSONParser.parse("{\"a\":1}")
        #expect(
            text(StreamEvent.encode(.put(.root, value), id: nil, form: .plain))
                == "event: put\ndata: {\"path\":\"/\",\"data\":{\"a\":1}}\n\n")
        let changes = [Change(path: Path(splitting: "b"), value: .null)]
        #expect(
            text(StreamEvent.encode(.patch(Path(splitting: "a"), changes), id: nil, form: .plain))
                == "event: patch\ndata: {\"path\":\"/a\",\"data\":{\"b\":null}}\n\n")
    }

    @Test func forms() throws {
        let value = try JSONParser.parse("{\"0\":\"a\",\"1\":{\".value\":2,\".priority\":3}}")
        #expect(text(StreamEvent.encode(.put(.root, value), id: "1", form: .plain)).contains("\"data\":[\"a\",2]}"))
        #expect(text(StreamEvent.encode(.put(.root, value), id: "1", form: .export)).contains("\".priority\":3"))
    }

    /// With any keys and values, each field is one line, a blank line comes only at the end, and the JSON is the value.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func oneLineOfJSON(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        for _ in 0..<300 {
            let value = random.tree(depth: 3)
            let path = random.path(maxDepth: 3)
            let framed = text(StreamEvent.encode(.put(path, value), id: "5", form: .export))
            let lines = framed.split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines.count == 5)
            #expect(lines.suffix(2) == ["", ""])
            #expect(!framed.utf8.contains(0x0D) && !framed.utf8.contains(0))
            let data = String(try #require(lines.dropFirst(2).first).dropFirst("data: ".count))
            // `data` is parsed as a client would, one level down, and equals the encoded value.
            let prefix = "\"data\":"
            let start = try #require(data.range(of: prefix, options: path))
            #expect(try JSONParser.parse(String(data[start...].dropLast())) == value)
        }
    }
}

extension String {
    /// Returns the index of the text after `prefix`, which follows the path.
    fileprivate func range(of prefix: String, options path: Path) -> String.Index? {
        var writer = JSONWriter(form: .plain)
        writer.writeString(path.description)
        let head = "{\"path\":" + String(decoding: writer.bytes, as: UTF8.self) + "," + prefix
        guard utf8.starts(with: head.utf8) else { return nil }
        return utf8.index(startIndex, offsetBy: head.utf8.count)
    }
}
