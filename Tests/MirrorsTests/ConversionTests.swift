import Testing
import Tree

@testable import Mirrors

/// Tests of the conversion of tree values into column values, for each type.
@Suite struct ConversionTests {
    private static func day(_ text: String) -> Cell? {
        Conversion.convert(.string(text), to: .date).cell
    }

    static let texts: [(Node, Conversion.Outcome)] = [
        (.string("a"), .cell(.text("a"))), (.string(""), .cell(.text(""))), (.int(-5), .cell(.text("-5"))),
        (.double(0.5), .cell(.text("0.5"))), (.bool(true), .cell(.text("true"))), (.null, .cell(.null)),
        (.string("p").withPriority(.int(1)), .cell(.text("p"))),
        (.string("a\u{0}b"), .conversionError("the text holds U+0000, which PostgreSQL can't store")),
        (branch("a", .int(1)), .conversionError("an object where a single value should be")),
    ]

    @Test(arguments: texts)
    func text(node: Node, outcome: Conversion.Outcome) {
        #expect(Conversion.convert(node, to: .text) == outcome)
    }

    static let integers: [(Node, Conversion.Outcome)] = [
        (.int(.max), .cell(.int(.max))), (.int(.min), .cell(.int(.min))), (.double(4), .cell(.int(4))),
        (.double(-0.0), .cell(.int(0))), (.double(9_007_199_254_740_992), .cell(.int(9_007_199_254_740_992))),
        (.double(4.5), .conversionError("the number is not a whole number of 64 bits")),
        (.double(1e19), .conversionError("the number is not a whole number of 64 bits")),
        (.double(-9_223_372_036_854_775_808), .cell(.int(.min))),
        (.string("4"), .conversionError("a text where a whole number should be")),
        (.bool(false), .conversionError("a boolean where a whole number should be")), (.null, .cell(.null)),
    ]

    @Test(arguments: integers)
    func bigint(node: Node, outcome: Conversion.Outcome) {
        #expect(Conversion.convert(node, to: .bigint) == outcome)
    }

    static let doubles: [(Node, Conversion.Outcome)] = [
        (.int(3), .cell(.double(3))), (.double(0.1), .cell(.double(0.1))), (.double(1e300), .cell(.double(1e300))),
        (.string("0.1"), .conversionError("a text where a number should be")),
        (.bool(true), .conversionError("a boolean where a number should be")),
    ]

    @Test(arguments: doubles)
    func double(node: Node, outcome: Conversion.Outcome) {
        #expect(Conversion.convert(node, to: .double) == outcome)
    }

    @Test(arguments: [
        "0", "-0", "+7", "12.50", "-12.5", "00012", "1e10", "1E-10", "1e+5", "1.5e1000", "1e-1000",
        String(repeating: "9", count: 1_000),
    ])
    func numericTexts(text: String) {
        #expect(Conversion.convert(.string(text), to: .numeric) == .cell(.decimal(text)))
    }

    @Test(arguments: [
        "", "-", "+", ".", ".5", "5.", "1.e5", "e5", "1e", "1e1001", "1e-1001", "1e5.5", " 1", "1 ", "1,5", "0x10",
        "NaN",
        "Infinity", "--1", "1_000", "\u{661}", "1\u{0}", String(repeating: "9", count: 1_001),
    ])
    func noNumericTexts(text: String) {
        #expect(Conversion.convert(.string(text), to: .numeric) == .conversionError("the text is not a decimal number"))
    }

    @Test func numericNumbers() {
        #expect(Conversion.convert(.int(-3), to: .numeric) == .cell(.decimal("-3")))
        #expect(Conversion.convert(.double(0.1), to: .numeric) == .cell(.decimal("0.1")))
        #expect(Conversion.convert(.double(1e21), to: .numeric) == .cell(.decimal("1e+21")))
        #expect(Conversion.convert(.bool(true), to: .numeric) == .conversionError("a boolean where a number should be"))
    }

    @Test func booleans() {
        #expect(Conversion.convert(.bool(true), to: .boolean) == .cell(.bool(true)))
        #expect(Conversion.convert(.int(1), to: .boolean) == .conversionError("a number where a boolean should be"))
        #expect(
            Conversion.convert(.string("true"), to: .boolean) == .conversionError("a text where a boolean should be"))
    }

    // MARK: Times

    static let times: [(Node, Int64)] = [
        (.int(0), 0), (.int(1), 1_000), (.int(-1), -1_000), (.double(0.5), 500), (.double(1.0004), 1_000),
        (.string("1970-01-01T00:00:00Z"), 0), (.string("1970-01-01T00:00:00.000001Z"), 1),
        (.string("1970-01-01T01:00:00+01:00"), 0), (.string("1969-12-31T23:59:59Z"), -1_000_000),
        (.string("2024-02-29T12:00:00Z"), 1_709_208_000_000_000), (.string("2024-02-29"), 1_709_164_800_000_000),
        (.int(253_402_300_799_999), 253_402_300_799_999_000), (.int(-62_135_596_800_000), -62_135_596_800_000_000),
    ]

    @Test(arguments: times)
    func timestamps(node: Node, microseconds: Int64) {
        #expect(Conversion.convert(node, to: .timestamp) == .cell(.timestamp(microseconds)))
    }

    @Test(arguments: [
        "", "yesterday", "2024-02-30", "2023-02-29", "2024-13-01", "2024-00-01", "24-01-01", "2024-1-1",
        "2024-01-01T24:00:01Z", "2024-01-01T12:60:00Z", "2024-01-01T12:00:00Zx", "0000-01-01", "10000-01-01",
    ])
    func noTimes(text: String) {
        #expect(
            Conversion.convert(.string(text), to: .timestamp) == .conversionError("the text is not an ISO 8601 time"))
        #expect(
            Conversion.convert(.string(text), to: .date)
                == .conversionError("the text is not a date such as 2026-01-31, nor an ISO 8601 time"))
    }

    @Test(arguments: [Node.int(253_402_300_800_000), .int(-62_135_596_800_001), .double(1e18), .double(-1e300)])
    func timesOutOfRange(node: Node) {
        for type in [ColumnType.timestamp, .date] {
            #expect(
                Conversion.convert(node, to: type) == .conversionError("the time is outside the years 1 to 9999"))
        }
    }

    @Test func daysAreOfUTC() {
        #expect(Conversion.convert(.int(0), to: .date).cell == Self.day("1970-01-01"))
        #expect(Conversion.convert(.int(-1), to: .date).cell == Self.day("1969-12-31"))
        #expect(Conversion.convert(.double(-0.5), to: .date).cell == Self.day("1969-12-31"))
        #expect(Conversion.convert(.int(86_399_999), to: .date).cell == Self.day("1970-01-01"))
        #expect(Self.day("2024-02-29T23:30:00-01:00") == Self.day("2024-03-01"))
        #expect(Self.day("2024-02-29") != Self.day("2024-03-01"))
        #expect(Conversion.convert(.bool(true), to: .date) == .conversionError("a boolean where a date should be"))
    }

    // MARK: Objects

    @Test func uuids() {
        let text = "3F2504E0-4f89-11d3-9A0C-0305E82C3301"
        #expect(Conversion.convert(.string(text), to: .uuid) == .cell(.uuid(text.lowercased())))
        for text in [
            "", "3F2504E04f8911d39A0C0305E82C3301", "{3F2504E0-4f89-11d3-9A0C-0305E82C3301}",
            "3F2504E0-4f89-11d3-9A0C-0305E82C330", "3F2504E0-4f89-11d3-9A0C-0305E82C3301 ",
            "3G2504E0-4f89-11d3-9A0C-0305E82C3301", "3F2504E0_4f89_11d3_9A0C_0305E82C3301",
        ] {
            #expect(Conversion.convert(.string(text), to: .uuid) == .conversionError("a text where a UUID should be"))
        }
        #expect(Conversion.convert(.int(1), to: .uuid) == .conversionError("a number where a UUID should be"))
    }

    static let documents: [(String, String?)] = [
        ("1", "1"), ("\"a\"", "\"a\""), ("{\"a\":{\"b\":[1,2]}}", "{\"a\":{\"b\":[1,2]}}"), ("true", "true"),
        ("\"\\u0000\"", nil), ("{\"a\":\"x\\u0000y\"}", nil), ("\"\\\\u0000\"", "\"\\\\u0000\""),
        ("\"\\\\\\u0000\"", nil),
    ]

    @Test(arguments: documents)
    func jsonb(text: String, wanted: String?) throws {
        let outcome = Conversion.convert(try JSONParser.parse(text), to: .jsonb)
        guard let wanted else {
            #expect(outcome == .conversionError("a text holds U+0000, which jsonb can't store"))
            return
        }
        guard case .cell(.json(let bytes)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(try JSONParser.parse(String(decoding: bytes, as: UTF8.self)) == JSONParser.parse(wanted))
    }

    static let sets: [(String, [String?]?)] = [
        ("{\"b\":true,\"a\":true}", ["a", "b"]), ("{\"a\":true,\"b\":false}", ["a"]), ("[\"x\",\"y\"]", ["x", "y"]),
        ("[\"x\"]", ["x"]), ("{\"0\":\"x\",\"2\":\"y\"}", ["x", nil, "y"]),
        ("{\"1\":\"x\"}", [nil, "x"]), ("{\"2\":\"x\"}", nil), ("{\"1\":\"x\",\"3\":\"y\"}", [nil, "x", nil, "y"]),
        ("{\"0\":\"x\",\"4\":\"y\"}", nil), ("{\"00\":\"x\"}", nil), ("{\"0\":\"x\",\"a\":\"y\"}", nil),
        ("{\"a\":\"x\"}", nil), ("{\"a\":true,\"b\":1}", nil),
        ("[\"x\",true]", nil), ("[[\"x\"]]", nil), ("{\"a\":{\"b\":true}}", nil), ("[\"x\\u0000\"]", nil),
        ("{\"a\":{\".value\":true,\".priority\":1}}", ["a"]),
    ]

    @Test(arguments: sets)
    func textArrays(text: String, members: [String?]?) throws {
        let outcome = Conversion.convert(try JSONParser.parse(text), to: .textArray)
        if let members {
            #expect(outcome == .cell(.texts(members)))
        } else {
            #expect(outcome == .conversionError("an object that is neither a set of keys nor a list of strings"))
        }
    }

    @Test func aLeafIsNoSet() {
        #expect(
            Conversion.convert(.string("a"), to: .textArray) == .conversionError("a text where a set of keys should be")
        )
    }

    static let literals: [([String?], String)] = [
        ([], "{}"), (["a"], "{\"a\"}"), (["a", ""], "{\"a\",\"\"}"), (["\"", "\\"], "{\"\\\"\",\"\\\\\"}"),
        ([nil, "NULL", nil], "{NULL,\"NULL\",NULL}"), (["{}", ",", "NULL", "ü"], "{\"{}\",\",\",\"NULL\",\"ü\"}"),
    ]

    @Test(arguments: literals)
    func arrayLiterals(members: [String?], literal: String) {
        #expect(Conversion.arrayLiteral(members) == literal)
    }

    /// Checks that null is null for every type, and that an object fits only two types.
    @Test(arguments: ColumnType.allCases)
    func nullAndObjects(type: ColumnType) {
        #expect(Conversion.convert(.null, to: type) == .cell(.null))
        let outcome = Conversion.convert(Self.branch("a", Self.branch("b", .int(1))), to: type)
        switch type {
        case .jsonb: #expect(outcome.cell != nil)
        case .textArray:
            #expect(outcome == .conversionError("an object that is neither a set of keys nor a list of strings"))
        default: #expect(outcome == .conversionError("an object where a single value should be"))
        }
    }

    private static func branch(_ key: String, _ node: Node) -> Node { Node(children: [(Key(key), node)]) }
}

extension Conversion.Outcome {
    /// The cell, or nil if the value does not fit.
    fileprivate var cell: Cell? { if case .cell(let cell) = self { cell } else { nil } }
}
