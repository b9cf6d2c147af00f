import Testing

@testable import Tree

/// Checks values of rows that are read one after another.
@Suite struct LeafReaderTests {
    private func read(_ json: String, _ reader: inout LeafReader) throws -> Node {
        try Array(json.utf8).withUnsafeBytes { try reader.read($0) }
    }

    /// A value equals the parser's result, with any values read before.
    @Test func valuesAreThoseOfTheParser() throws {
        let long = String(repeating: "x", count: 40)
        let texts = [
            "\"\(long)\"", "\"\(long.dropLast())\\n\"", "\"\(long.dropLast())\\\\n\"", "\"\(long.dropLast(2))\\u00e4\"",
            "\"\(long)ä\"", "\"0123456789abcdef\"", "\"0123456789abcde\"", "\"\"", "1", "-2.5", "true",
            "\"\(long)\(long)\"",
            "\"user-aaaaaaaaaaaaaaaaaaaaaaaaaaaa-1\"", "\"user-bbbbbbbbbbbbbbbbbbbbbbbbbbbb-1\"",
        ]
        var reader = LeafReader()
        for round in 0..<60 {
            for json in texts { #expect(try read(json, &reader) == JSONParser.parse(json), "\(round): \(json)") }
            let other = "\"a text that is another each time: \(round)\""
            #expect(try read(other, &reader) == JSONParser.parse(other))
        }
    }

    @Test(arguments: [
        "\"a text \"with\" quotes in it\"", "\"a text with a \u{1} control\"", "\"a text that comes ", "", "\"",
    ]) func whatIsNoValueIsRefused(_ json: String) throws {
        var reader = LeafReader()
        for _ in 0..<300 { _ = try read("\"a text that comes again\"", &reader) }
        #expect(throws: JSONError.self) { try read(json, &reader) }
        #expect(try read("\"a text that comes again\"", &reader) == .string("a text that comes again"))
    }

    @Test func textsThatComeAgainAreOneInMemory() throws {
        var reader = LeafReader()
        var entries: [(Key, Node)] = []
        for number in 0..<10_000 {
            entries.append((Key("k\(number)"), try read("\"the id of user number \(number % 50)\"", &reader)))
        }
        let bytes = Node(children: entries).heapBytes
        let apart = Node(
            children: entries.map { ($0.0, Node.string(String(decoding: Array("\($0.1)".utf8), as: UTF8.self))) })
        #expect(bytes * 3 < apart.heapBytes * 2, "\(bytes) of \(apart.heapBytes)")
    }
}
