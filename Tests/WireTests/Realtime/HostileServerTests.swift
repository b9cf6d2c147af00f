import TestSupport
import Testing
import Tree

@testable import Wire

/// Checks that a server can't make a client use more memory than it sends, or more time than is linear in it.
@Suite struct HostileServerTests {
    private static func push(_ action: String, _ data: String) -> [UInt8] {
        Array("{\"t\":\"d\",\"d\":{\"a\":\"\(action)\",\"b\":{\"p\":\"a\",\"d\":\(data)}}}".utf8)
    }

    private static func value(_ data: String) throws -> Node {
        guard case .push(.change(.put(_, let node), nil, _)) = try ServerMessageParser.parse(push("d", data)) else {
            throw MessageError(reason: "no data")
        }
        return node
    }

    // MARK: Segments

    @Test func announcedCountsAllocateNothing() {
        var assembler = SegmentAssembler(maxBytes: 1_000)
        #expect(assembler.take(Array("999999".utf8)) == .nothing)
        #expect(assembler.waitingBytes == 0)
        // Empty frames, counts and keep-alives are segments now.
        for _ in 0..<10_000 { #expect(assembler.take([]) == .nothing) }
        #expect(assembler.take(Array("999999".utf8)) == .nothing)
        #expect(assembler.waitingBytes == 6)
        for _ in 0..<9 { #expect(assembler.take([UInt8](repeating: 0x20, count: 100)) == .nothing) }
        #expect(assembler.take([UInt8](repeating: 0x20, count: 100)) == .tooLong(limit: 1_000))
        #expect(assembler.waitingBytes <= 1_000)
    }

    @Test(arguments: ["", " 5", "5 ", "٣", "0x10", "1_0", "1e3", "1.0", "9999999"]) func thatIsNoCount(text: String) {
        var assembler = SegmentAssembler(maxBytes: 1_000)
        #expect(assembler.take(Array(text.utf8)) == .message(Array(text.utf8)))
    }

    @Test func manySmallSegmentsTakeLinearTime() {
        var assembler = SegmentAssembler(maxBytes: 10_000_000)
        #expect(assembler.take(Array("199999".utf8)) == .nothing)
        for _ in 0..<199_998 { _ = assembler.take([0x20]) }
        #expect(assembler.waitingBytes == 199_998)
        #expect(assembler.take([0x20]) == .message([UInt8](repeating: 0x20, count: 199_999)))
        #expect(assembler.waitingBytes == 0)
    }

    // MARK: Values

    @Test(arguments: [
        ("-0", Node.double(-0.0)), ("-0.0", .double(-0.0)), ("0", .int(0)), ("1.0", .int(1)),
        ("9007199254740993", .int(9_007_199_254_740_993)), ("-9007199254740993", .int(-9_007_199_254_740_993)),
        ("9007199254740993.0", .int(9_007_199_254_740_992)), ("9223372036854775807", .int(.max)),
        ("9223372036854775808", .double(0x1p63)), ("1e308", .double(1e308)),
        ("5e-324", .double(.leastNonzeroMagnitude)),
        ("1e-400", .int(0)),
        ("[[],{},null]", .null), ("{\".value\":null}", .null), ("{\".value\":null,\".priority\":1}", .null),
        ("{\"a\":1,\"a\":2}", Node(children: [(Key("a"), .int(2))])),
        ("{\"a\":1,\"a\":null}", .null), ("{\".value\":1,\".value\":2}", .int(2)),
        ("{\".priority\":1,\".value\":true}", Node.bool(true).withPriority(.int(1))),
        ("{\"b\":{\".value\":null,\"c\":1}}", Node(children: [(Key("b"), Node(children: [(Key("c"), .int(1))]))])),
    ]) func unusualValues(text: String, expected: Node) throws {
        #expect(try Self.value(text) == expected)
        // `==` of nodes compares bits, so this is no repetition: the text has the same meaning for a store.
        let stored = string(JSONWriter.encode(try Self.value(text), form: .export))
        #expect(try Self.value(stored) == expected)
    }

    @Test(arguments: [
        "1e400", "-1e400", "{\"a\":1e999}", "NaN", "Infinity", "01", "+1", ".5", "1.", "{\".value\":{\"a\":1}}",
        "{\".value\":[1]}", "{\".value\":1,\"a\":2}", "{\".priority\":true,\"a\":1}", "{\".sv\":\"timestamp\"}",
        "{\".x\":1}",
        "{\"a\":{\".sv\":{\"increment\":1}}}", "\"\\ud800\"", "{\"a\":1,}", "[1,]", "{\"a\" 1}", "{'a':1}",
    ]) func invalidValues(text: String) {
        #expect(throws: MessageError.self) { try Self.value(text) }
        #expect(throws: MessageError.self) { try ServerMessageParser.parse(Self.push("m", "{\"b\":\(text)}")) }
    }

    /// Envelopes with repeated members: the last one counts. Numbers of answers and tags are whole.
    @Test func envelopes() throws {
        func parse(_ text: String) throws -> ServerMessage { try ServerMessageParser.parse(Array(text.utf8)) }
        #expect(
            try parse(#"{"t":"c","t":"d","d":{"a":"x","a":"d","b":{"p":"b","p":"c","d":1,"d":2}}}"#)
                == .push(.change(.put(Path([Key("c")]), .int(2)), tag: nil)))
        for number in ["1.5", "1e400", "\"1\"", "null", "9223372036854775808"] {
            #expect(throws: MessageError.self) { try parse(#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":1}}}"#) }
            #expect(throws: MessageError.self) {
                try parse(#"{"t":"d","d":{"a":"d","b":{"p":"","d":1,"t":\#(number)}}}"#)
            }
        }
    }

    // MARK: Size

    /// A quadratic parser needs minutes for these messages.
    @Test(arguments: [
        "nested arrays", "nested objects", "equal keys", "descending keys", "commas", "quotes", "escapes",
        "a long number",
        "a long fraction", "empty values", "a long path", "ranges", "leaves", "levels", "changes", "spaces",
    ]) func largeMessagesTakeLinearTime(kind: String) {
        func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
        func list(_ count: Int, _ text: (Int) -> String) -> String { (0..<count).map(text).joined(separator: ",") }
        let message: [UInt8] =
            switch kind {
            case "nested arrays": Self.push("d", repeated("[", 300_000))
            case "nested objects":
                Self.push("rm", "[{\"m\":" + repeated("{\"a\":", 100_000) + repeated("}", 100_000) + "}]")
            case "equal keys": Self.push("d", "{" + list(40_000) { _ in "\"a\":1" } + "}")
            case "descending keys": Self.push("d", "{" + list(40_000) { "\"k\(900_000 - $0)\":1" } + "}")
            case "commas": Self.push("d", repeated(",", 300_000))
            case "quotes": Self.push("d", repeated("\"", 300_001))
            case "escapes": Self.push("d", "\"" + repeated("\\u0041", 100_000) + "\"")
            case "a long number": Self.push("d", repeated("9", 300_000))
            case "a long fraction": Self.push("d", "0." + repeated("7", 300_000))
            case "empty values": Self.push("rm", "[{\"m\":{" + list(20_000) { "\"k\($0)\":{\"a\":{}}" } + "}}]")
            case "a long path":
                Array("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"\(repeated("a/", 150_000))\",\"d\":1}}}".utf8)
            case "ranges":
                Self.push("rm", "[" + list(10_000) { "{\"s\":\"k\($0)\",\"e\":\"k\($0 + 1)\",\"m\":null}" } + "]")
            case "leaves": Self.push("rm", "[{\"m\":{" + list(20_000) { "\"k\(900_000 - $0)\":\($0)" } + "}}]")
            case "levels":
                Self.push(
                    "rm",
                    "[{\"m\":" + repeated("{\"a\":", 30) + "{" + list(5_000) { "\"k\($0)\":1" } + repeated("}", 32)
                        + "]")
            case "changes": Self.push("m", "{" + list(20_000) { "\"b/k\($0)/c\":1" } + "}")
            default: Self.push("d", repeated(" ", 300_000) + "1")
            }
        let clock = ContinuousClock()
        var ranges: [RangeMerge] = []
        let time = clock.measure {
            if case .push(.ranges(_, let found, _, _))? = try? ServerMessageParser.parse(message) { ranges = found }
        }
        #expect(time < .seconds(60), "\(kind): \(message.count) bytes")
        let applying = clock.measure { _ = RangeMerge.apply(ranges, to: .null) }
        #expect(applying < .seconds(60), "\(kind)")
    }
}
