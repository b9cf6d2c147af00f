import TestSupport
import Testing

@testable import pathmirror

/// Checks that `--json` prints valid JSON on one line, for all contents.
@Suite struct JSONOutputTests {
    @Test(
        arguments: [
            (.null, "null"), (.bool(true), "true"), (.bool(false), "false"), (.number(0), "0"),
            (.number(.max), "9223372036854775807"), (.number(.min), "-9223372036854775808"), (.text(""), "\"\""),
            (.text("a\"b"), "\"a\\\"b\""), (.raw(Array("{\"x\":1}".utf8)), "{\"x\":1}"), (.list([]), "[]"),
            (.object([:]), "{}"),
            (.list([.number(1), .null, .list([])]), "[1,null,[]]"),
            (.object(["b": .number(1), "a": .object(["b": .null])]), "{\"b\":1,\"a\":{\"b\":null}}"),
            (.init(nil), "null"), (.init("x"), "\"x\""),
        ] as [(JSONOutput, String)]) func texts(_ value: JSONOutput, _ expected: String)
    {
        #expect(value.line == expected)
    }

    @Test(arguments: [
        "\n", "\r\n", "\u{0}", "\u{1F}", "\u{7F}", "\\", "\"", "/", "ü", "😀", "\u{2028}", "\u{FEFF}", "e\u{301}",
        "a\tb",
        "\u{10FFFF}", "</script>",
    ]) func anyTextComesBack(_ text: String) throws {
        let line = JSONOutput.object(["key": .text(text), text: .null]).line
        #expect(!line.contains("\n"))
        #expect(try JSONText(reading: line) == .object(["key": .text(text), text: .null]))
    }

    private static func random(_ random: inout SeededGenerator, depth: Int) -> (JSONOutput, JSONText) {
        switch random.below(depth > 0 ? 6 : 4) {
        case 0: return (.null, .null)
        case 1:
            let flag = random.oneIn(2)
            return (.bool(flag), .bool(flag))
        case 2:
            let number = Int64(bitPattern: random.next()) >> Int64(random.below(64))
            return (.number(number), .number(String(number)))
        case 3:
            let text = random.pick(["", "a", "\n\t\u{0}", "😀é", "\\\"", String(repeating: "x", count: 200)])
            return (.text(text), .text(text))
        case 4:
            let items = (0..<random.below(5)).map { _ in Self.random(&random, depth: depth - 1) }
            return (.list(items.map(\.0)), .list(items.map(\.1)))
        default:
            let value = Self.random(&random, depth: depth - 1)
            let other = Self.random(&random, depth: depth - 1)
            return (.object(["one": value.0, "two": other.0]), .object(["one": value.1, "two": other.1]))
        }
    }

    @Test(arguments: 0..<200) func anyValueComesBack(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let (value, expected) = Self.random(&generator, depth: 5)
        #expect(try JSONText(reading: value.line) == expected)
    }

    /// Checks that the tests' own reader is strict; otherwise the tests above would prove nothing.
    @Test(arguments: [
        "", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "\"a", "\"\n\"", "01a", "nul", "1 2", "{\"a\":1,\"a\":2}", "[1 2]",
        "\"\\x\"",
        "\"\\ud800\"",
    ]) func theTestsReaderIsStrict(_ text: String) {
        #expect(throws: JSONText.Failure.self) { try JSONText(reading: text) }
    }
}
