import TestSupport
import Testing
import Wire

/// Checks the framing of event streams (HTML standard, "Server-sent events").
@Suite struct EventStreamParserTests {
    private func events(_ bytes: [UInt8], maxBytes: Int = 10_000) throws -> [ServerSentEvent] {
        var parser = EventStreamParser(maxBytes: maxBytes)
        var events: [ServerSentEvent] = []
        try parser.take(bytes, into: &events)
        return events
    }

    private func events(_ text: String) throws -> [String] {
        try events(Array(text.utf8)).map { "\($0.name)|\(string($0.data))|\($0.lastEventID)" }
    }

    @Test(arguments: [
        ("", []), ("\n\n\n", []), ("data: a\n\n", ["message|a|"]), ("event: put\ndata: a\n\n", ["put|a|"]),
        ("data: a\nevent: put\n\n", ["put|a|"]),
        // One space belongs to the field, further ones to the value; without a colon the value is empty.
        ("data:a\n\n", ["message|a|"]), ("data:  a \n\n", ["message| a |"]), ("data\n\n", ["message||"]),
        ("data: \n\n", ["message||"]), ("data:\n\n", ["message||"]),
        // Several lines of data are one text.
        ("data: a\ndata: b\ndata\ndata: c\n\n", ["message|a\nb\n\nc|"]), ("data\ndata\n\n", ["message|\n|"]),
        // Without data there is no event, and its name is discarded.
        ("event: put\n\ndata: a\n\n", ["message|a|"]), ("event: a\nevent: b\ndata: x\n\n", ["b|x|"]),
        ("event:\ndata: x\n\n", ["message|x|"]),
        // An id is kept until the next one.
        ("id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", ["message|a|7", "message|b|7", "message|c|"]),
        ("id: 7\n\ndata: a\n\n", ["message|a|7"]), ("id: 1\u{0}2\ndata: a\n\n", ["message|a|"]),
        // Comments and unknown fields are ignored.
        (": comment\ndata: a\n:\n: data: b\n\n", ["message|a|"]),
        ("other: x\ndata: a\nDATA: b\n data: c\n\n", ["message|a|"]),
        // The end of the stream does not complete an event.
        ("data: a", []), ("data: a\n", []), ("data: a\n\ndata: b\n", ["message|a|"]),
        // Names and texts may contain any other characters.
        ("event: é 😀\ndata: {\"a\":\"b: c\"}\n\n", ["é 😀|{\"a\":\"b: c\"}|"]),
        ("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n", ["message|a|"]),
    ]) func framing(text: String, expected: [String]) throws {
        #expect(try events(text) == expected)
        // Lines may end in any of three ways.
        #expect(try events(text.replacing("\n", with: "\r")) == expected.map { $0 })
        #expect(try events(text.replacing("\n", with: "\r\n")) == expected.map { $0 })
    }

    @Test func endsOfLinesMayMix() throws {
        #expect(try events("data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\r") == ["message|a\nb\nc|", "message|d|"])
        // CR LF is one line end and not two, also at the end of an event.
        #expect(try events("event: x\r\ndata: a\r\n\r\n") == ["x|a|"])
        #expect(try events("event: x\r\n\ndata: a\n\n") == ["message|a|"])
    }

    @Test func retry() throws {
        var parser = EventStreamParser(maxBytes: 100)
        var events: [ServerSentEvent] = []
        try parser.take(Array("retry: 3000\n".utf8), into: &events)
        #expect(parser.retryMilliseconds == 3_000)
        for wrong in ["", "-1", "1.5", "x", "9223372036854775808", "1 "] {
            try parser.take(Array("retry: \(wrong)\n".utf8), into: &events)
            #expect(parser.retryMilliseconds == 3_000, "\(wrong)")
        }
        #expect(events.isEmpty)
    }

    @Test func bytesThatAreNoText() throws {
        let event = try #require(try events([0x64, 0x61, 0x74, 0x61, 0x3A, 0xFF, 0xC3, 0x0A, 0x0A]).first)
        #expect(event.data == [0xFF, 0xC3], "whether it is text is for whoever reads the data")
        let named = try #require(try events(Array("event: ".utf8) + [0xFF] + Array("\ndata: a\n\n".utf8)).first)
        #expect(named.name == "\u{FFFD}")
    }

    /// With any division of the bytes into pieces, the events are the same.
    @Test(arguments: [301, 302, 303, 304] as [UInt64]) func piecesOfAnySize(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let parts = [
            "data: ", "event: x", "id: 9", "\n", "\r", "\r\n", "\n\n", ":c", "a", "é", "😀", "retry: 5", " ", ":",
        ]
        for _ in 0..<400 {
            let bytes = Array((0..<random.below(30)).map { _ in random.pick(parts) }.joined().utf8)
            let whole = try events(bytes)
            var parser = EventStreamParser(maxBytes: 10_000)
            var pieces: [ServerSentEvent] = []
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + random.below(5))
                try parser.take(bytes[start..<end], into: &pieces)
                start = end
            }
            #expect(pieces == whole, "\(string(bytes))")
        }
    }

    @Test func limits() throws {
        let line = String(repeating: "x", count: 94)
        #expect(try events(Array("data: \(line)\n\n".utf8), maxBytes: 100).count == 1)
        for text in [
            "data: \(line)y\n\n", String(repeating: "z", count: 101), ":" + String(repeating: "c", count: 100),
            "data: \(line)\ndata: \(line)\n\n", String(repeating: "data\n", count: 102),
        ] {
            #expect(throws: EventStreamError.tooLong(limit: 100)) {
                try events(Array(text.utf8), maxBytes: 100)
            }
        }
        // The limit applies to each event, not to their sum.
        #expect(
            try events(Array(String(repeating: "data: \(line)\n\n", count: 1_000).utf8), maxBytes: 100).count == 1_000)
    }

    /// Events before a line that is too long are returned; none comes after it.
    @Test func eventsBeforeAnErrorCount() throws {
        var parser = EventStreamParser(maxBytes: 10)
        var events: [ServerSentEvent] = []
        #expect(throws: EventStreamError.self) {
            try parser.take(Array("data: a\n\ndata: 123456\n\n".utf8), into: &events)
        }
        #expect(events.map { string($0.data) } == ["a"])
        #expect(parser.waitingBytes == 0)
        #expect(throws: EventStreamError.tooLong(limit: 10)) {
            try parser.take(Array("data: b\n\n".utf8), into: &events)
        }
        #expect(events.count == 1)
    }

    @Test func waitingBytesAreKnown() throws {
        var parser = EventStreamParser(maxBytes: 1_000)
        var events: [ServerSentEvent] = []
        try parser.take(Array("data: abc\nda".utf8), into: &events)
        #expect(parser.waitingBytes == 5)
        try parser.take(Array("ta: d\n\n".utf8), into: &events)
        #expect(parser.waitingBytes == 0 && events.count == 1 && parser.lastEventID == "")
    }
}
