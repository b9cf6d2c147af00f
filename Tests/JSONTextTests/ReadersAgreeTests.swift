import JSONText
import TestSupport
import Testing
import Tokens
import Tree

@testable import Mirrors

/// Checks that all JSON readers accept the same texts, apart from the additional rules of each.
@Suite struct ReadersAgreeTests {
    /// Texts at the limits of the grammar, and whether they are JSON. The verdicts follow RFC 8259, as Python's `json`
    /// does with constants and control characters refused; Python accepts unpaired surrogates, these readers don't.
    static let verdicts: [(text: String, isJSON: Bool)] = [
        // Valid values.
        ("0", true), ("-0", true), ("1", true), ("-1", true), ("10", true), ("1.0", true), ("1.5e3", true),
        ("1E3", true), ("1e+3", true),
        ("1e-3", true), ("0.1", true), ("0e1", true), ("-0.0e-0", true), ("123456789012345678901234567890", true),
        ("true", true),
        ("false", true), ("null", true), ("\"\"", true), ("\"a\"", true), ("[]", true), ("{}", true), (" 1 ", true),
        ("\n[\t]\r", true),
        ("[1]", true), ("[1,2]", true), ("[ 1 , 2 ]", true), ("[[]]", true), ("[{}]", true), ("{\"a\":1}", true),
        ("{ \"a\" : 1 }", true),
        ("{\"a\":1,\"b\":[true,false,null]}", true), ("{\"\":1}", true), ("{\"a\":{\"b\":{\"c\":{}}}}", true),
        // Invalid numbers.
        ("", false), (" ", false), ("-", false), ("+1", false), ("01", false), ("-01", false), ("00", false),
        (".5", false), ("5.", false),
        ("1.e1", false), ("1e", false), ("1e+", false), ("1e1.5", false), ("0x1", false), ("1_000", false),
        ("--1", false), ("1-", false),
        ("1 2", false), ("NaN", false), ("Infinity", false), ("-Infinity", false), ("１", false), ("1e１", false),
        ("- 1", false),
        // Invalid words.
        ("tru", false), ("True", false), ("TRUE", false), ("truee", false), ("nul", false), ("undefined", false),
        ("fals", false), ("nil", false),
        // Strings.
        ("\"\\u0041\"", true), ("\"\\u00e9\\u00E9\"", true), ("\"\\ud83d\\ude00\"", true),
        ("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", true),
        ("\"é😀\"", true), ("\"\u{7F}\"", true), ("\"\u{2028}\"", true), ("\"/\"", true), ("\"", false), ("\"a", false),
        ("\"\\\"", false),
        ("'a'", false), ("a", false), ("\"\\x41\"", false), ("\"\\u004\"", false), ("\"\\u00g0\"", false),
        ("\"\\U0041\"", false),
        ("\"\\'\"", false), ("\"\\0\"", false), ("\"a\nb\"", false), ("\"a\tb\"", false), ("\"\u{0}\"", false),
        ("\"\u{1F}\"", false),
        ("\"\\", false), ("\"\\u", false), ("\"\\ud83d\\u12\"", false), ("\"a\"b", false), ("\"a\" \"b\"", false),
        ("“a”", false),
        // Arrays.
        ("[", false), ("]", false), ("[1", false), ("[1,", false), ("[1,]", false), ("[,1]", false), ("[,]", false),
        ("[1 2]", false),
        ("[1,,2]", false), ("[1}", false), ("[1]]", false), ("[1];", false), ("[\"a\"", false), ("[1:2]", false),
        // Objects.
        ("{", false), ("}", false), ("{\"a\"}", false), ("{\"a\":}", false), ("{\"a\":1", false), ("{\"a\":1,}", false),
        ("{,}", false),
        ("{\"a\":1,,\"b\":2}", false), ("{a:1}", false), ("{'a':1}", false), ("{1:1}", false), ("{\"a\" 1}", false),
        ("{\"a\"::1}", false),
        ("{\"a\":1 \"b\":2}", false), ("{\"a\":1]", false), ("{null:1}", false), ("{\"a\":1}}", false),
        ("{\"a\":1};", false),
        // White space and comments.
        ("\u{B}1", false), ("\u{C}1", false), ("\u{A0}1", false), ("\u{FEFF}1", false), ("1\u{0}", false),
        ("1//", false), ("/**/1", false),
        ("#\n1", false), ("[1,\u{85}2]", false), ("\u{3000}1", false),
    ]

    private func isTaken(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            return false
        }
    }

    /// Whether the parser of data accepts a text's grammar: keys and sizes have additional rules.
    private func isSyntax(_ bytes: [UInt8]) -> Bool {
        do {
            _ = try JSONParser.parse(bytes)
            return true
        } catch {
            return error.kind != .syntax
        }
    }

    private func rows(_ bytes: [UInt8], piece: Int) -> Bool {
        isTaken {
            var reader = JSONRowReader()
            var index = 0
            while index < bytes.count {
                let end = min(index + piece, bytes.count)
                try reader.take(Array(bytes[index..<end])) { _, _ in }
                index = end
            }
            try reader.finish { _, _ in }
        }
    }

    @Test(arguments: verdicts)
    func everyReaderHasTheVerdict(text: String, isJSON: Bool) {
        let bytes = Array(text.utf8)
        #expect(RawJSON(bytes).isJSON == isJSON)
        #expect(isTaken { _ = try ClaimsReader.value(bytes) } == isJSON)
        #expect(isTaken { _ = try SourceText.read(bytes) } == isJSON)
        // An empty key is valid JSON, but not a valid key of data.
        #expect(isSyntax(bytes) == isJSON)
        if text != "{\"\":1}" {
            for piece in [1, 2, 3, 1_000] { #expect(rows(bytes, piece: piece) == isJSON, "in pieces of \(piece)") }
        }
    }

    /// Bytes that are not UTF-8 are refused at any offset.
    @Test(
        arguments: [
            [0x80], [0xC0, 0x80], [0xC3], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF0, 0x9F, 0x98],
            [0xF4, 0x90, 0x80, 0x80], [0xFF],
        ] as [[UInt8]])
    func textIsUTF8(bad: [UInt8]) {
        for (before, after) in [
            ("\"", "\""), ("\"a", "b\""), ("{\"", "\":1}"), ("[\"\\n", "\"]"), ("", "1"), ("1", ""),
        ] {
            let bytes = Array(before.utf8) + bad + Array(after.utf8)
            #expect(!RawJSON(bytes).isJSON)
            #expect(!isTaken { _ = try ClaimsReader.value(bytes) })
            #expect(!isTaken { _ = try SourceText.read(bytes) })
            #expect(!isSyntax(bytes))
            #expect(!rows(bytes, piece: 2))
        }
    }

    /// An unpaired surrogate is not text; only raw JSON that is passed on unchanged may contain one.
    @Test(arguments: ["\"\\ud83d\"", "\"\\ude00\"", "\"\\ude00\\ud83d\"", "\"\\ud83d\\u0041\"", "\"\\ud83dx\""])
    func halvesOfPairs(text: String) {
        let bytes = Array(text.utf8)
        #expect(RawJSON(bytes).isJSON)
        #expect(!isTaken { _ = try ClaimsReader.value(bytes) })
        #expect(!isTaken { _ = try SourceText.read(bytes) })
        #expect(!isSyntax(bytes))
        #expect(!rows(bytes, piece: 3))
    }

    /// With a repeated name, data keeps the last value, and all other readers refuse the text.
    @Test func equalNames() {
        let bytes = Array(#"{"a":1,"\u0061":2}"#.utf8)
        #expect(RawJSON(bytes).isJSON)
        #expect(!isTaken { _ = try ClaimsReader.value(bytes) })
        #expect(!isTaken { _ = try SourceText.read(bytes) })
        #expect(isSyntax(bytes))
        #expect(!rows(bytes, piece: 4))
    }

    @Test(arguments: [
        (32, true, true), (33, false, true), (64, false, true), (65, false, true), (66, false, false),
        (100_000, false, false),
    ])
    func depthIsBounded(depth: Int, isClaims: Bool, isSource: Bool) {
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        #expect(RawJSON(Array(text.utf8)).isJSON)
        #expect(isTaken { _ = try ClaimsReader.value(Array(text.utf8)) } == isClaims)
        #expect(isTaken { _ = try SourceText.read(Array(text.utf8)) } == isSource)
    }

    // MARK: Generated texts

    /// Returns a random JSON text, with white space and escapes wherever they are allowed.
    private func text(_ generator: inout SeededGenerator, depth: Int = 0) -> String {
        func space() -> String { [" ", "\n", "\t ", "", "", ""].randomElement(using: &generator) ?? "" }
        func string() -> String {
            let pieces = [
                "a", "é", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\\"", "\\\\", "/", " ", "xyzxyzxyz", "\\/",
                "\u{7F}",
            ]
            return "\""
                + (0..<Int.random(in: 0...6, using: &generator)).map { _ in
                    pieces.randomElement(using: &generator) ?? ""
                }.joined() + "\""
        }
        let kind = Int.random(in: 0...(depth < 5 ? 7 : 5), using: &generator)
        switch kind {
        case 0: return ["true", "false", "null"].randomElement(using: &generator) ?? "null"
        case 1: return string()
        case 2: return "\(Int.random(in: -1_000_000...1_000_000, using: &generator))"
        case 3:
            return ["0.5", "-1.25e10", "1E-3", "0", "-0", "12345678901234567890", "1e2"].randomElement(
                using: &generator) ?? "0"
        case 4, 5: return string()
        case 6:
            let items = (0..<Int.random(in: 0...4, using: &generator)).map { _ in text(&generator, depth: depth + 1) }
            return "[" + space() + items.joined(separator: space() + "," + space()) + space() + "]"
        default:
            let members = (0..<Int.random(in: 0...4, using: &generator)).map { index in
                "\"k\(index)\"" + space() + ":" + space() + text(&generator, depth: depth + 1)
            }
            return "{" + space() + members.joined(separator: space() + "," + space()) + space() + "}"
        }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>) func madeTextsAreTakenByAll(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<400 {
            let text = text(&generator)
            let bytes = Array(text.utf8)
            let verdicts = [
                RawJSON(bytes).isJSON, isTaken { _ = try ClaimsReader.value(bytes) },
                isTaken { _ = try SourceText.read(bytes) },
                isSyntax(bytes), rows(bytes, piece: Int.random(in: 1...9, using: &generator)),
            ]
            if verdicts.contains(false) {
                Issue.record("\(verdicts): \(text)")
                return
            }
        }
    }

    /// After a byte is changed, removed or inserted, the readers still agree on the verdict.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func spoiltTextsAreJudgedAlike(seed: UInt64) {
        var generator = SeededGenerator(seed: seed &* 77)
        let marks = Array("{}[]\",:\\ue0123-+.tfn \n\u{1}'/".utf8) + [0x80, 0xFF]
        var refused = 0
        for _ in 0..<1_500 {
            var bytes = Array(text(&generator).utf8)
            for _ in 0..<Int.random(in: 1...2, using: &generator) {
                let offset = Int.random(in: 0...bytes.count, using: &generator)
                let mark = marks.randomElement(using: &generator) ?? 0
                switch Int.random(in: 0...2, using: &generator) {
                case 0 where offset < bytes.count: bytes[offset] = mark
                case 1 where offset < bytes.count: bytes.remove(at: offset)
                default: bytes.insert(mark, at: offset)
                }
            }
            let claims = isTaken { _ = try ClaimsReader.value(bytes) }
            let source = isTaken { _ = try SourceText.read(bytes) }
            let data = isSyntax(bytes)
            let isParsed = isTaken { _ = try JSONParser.parse(bytes) }
            let raw = RawJSON(bytes).isJSON
            if !raw { refused += 1 }
            // The grammar is the same. Additional refusals: numbers that no double can represent (a definition keeps
            // them as text), repeated names, unpaired surrogates, and keys that data may not have.
            if (claims && !(source && data && raw)) || (source && !(raw && data)) || (isParsed && !raw) {
                Issue.record(
                    "claims \(claims), source \(source), data \(data), raw \(raw): \(String(decoding: bytes, as: UTF8.self))"
                )
                return
            }
        }
        #expect(refused > 300)
    }

    /// Claims and data have the same value for a text.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func valuesAreTheSame(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 1_001)
        for _ in 0..<300 {
            let bytes = Array(text(&generator).utf8)
            let claims = try ClaimsReader.value(bytes)
            let again = try ClaimsReader.value(Array(Self.written(claims).utf8))
            #expect(claims == again)
        }
    }

    /// Returns claims as JSON text, with every unit of strings escaped.
    private static func written(_ value: ClaimValue) -> String {
        func string(_ text: String) -> String {
            "\""
                + text.utf16.map { unit in
                    let digits = String(unit, radix: 16)
                    return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }.joined() + "\""
        }
        switch value {
        case .null: return "null"
        case .bool(let flag): return "\(flag)"
        case .integer(let number): return "\(number)"
        case .number(let number): return "\(number)"
        case .string(let text): return string(text)
        case .array(let values): return "[" + values.map { written($0) }.joined(separator: ",") + "]"
        case .object(let claims):
            return "{" + claims.members.map { string($0.name) + ":" + written($0.value) }.joined(separator: ",") + "}"
        }
    }
}
