import JSONText
import Testing
import Tokens

@testable import Mirrors

/// Checks each reader's error messages and positions for texts that are not JSON.
@Suite struct WordsTests {
    @Test(arguments: [
        ("", "bad JSON"), ("x", "bad JSON"), ("tru", "bad JSON"), ("{", "bad JSON"), ("{a", "bad JSON"),
        ("{\"a\"", "bad JSON"),
        ("{\"a\":1", "bad JSON"), ("[1", "bad JSON"), ("[1;", "bad JSON"), ("-", "bad JSON"), ("1.", "bad JSON"),
        ("1e", "bad JSON"),
        ("01", "bad number"), ("1e400", "bad number"), ("1 2", "text after the JSON"),
        ("{}x", "text after the JSON"),
        ("\"", "an unterminated string"), ("\"\\", "an unterminated string"),
        ("\"a\nb\"", "an unescaped control character"),
        ("\"\\x\"", "a bad escape"),
        ("\"\\u12\"", "a bad escape"), ("\"\\ud83d\"", "a lone surrogate"), ("\"\\ude00\"", "a lone surrogate"),
        ("\"\\ud83d\\u0041\"", "a lone surrogate"), ("\"\\ud83d\\uzzzz\"", "a bad escape"),
        ("{\"a\":1,\"a\":2}", "a duplicate name"),
        ("{\"a\":1,\"\\u0061\"", "a duplicate name"),
    ])
    func claims(text: String, words: String) {
        #expect(throws: JWTError.malformed(words)) { try ClaimsReader.value(Array(text.utf8)) }
    }

    @Test func claimsOfOtherKinds() {
        #expect(throws: JWTError.malformed("not UTF-8")) { try ClaimsReader.value([0x22, 0xFF, 0x22]) }
        #expect(throws: JWTError.malformed("not a JSON object")) { try ClaimsReader.object(Array("[1]".utf8)) }
        let deep = Array(String(repeating: "[", count: 33).utf8)
        #expect(throws: JWTError.malformed("JSON nested too deeply")) { try ClaimsReader.value(deep) }
    }

    @Test(arguments: [
        ("", 1, 1, "the text ends where a value should be"), ("\n ", 2, 2, "the text ends where a value should be"),
        ("x", 1, 1, "unexpected character where a value should be"),
        ("[tru]", 1, 2, "unexpected character where a value should be"),
        ("1 2", 1, 3, "there is more text after the value"), ("{a", 1, 2, "expected a key in double quotes"),
        ("{\"a\":1,}", 1, 8, "expected a key in double quotes"), ("{\n\"a\" 1", 2, 5, "expected : after a key"),
        ("{\"a\":1 \"b\"", 1, 8, "expected , or } in an object"), ("[1 2", 1, 4, "expected , or ] in an array"),
        ("[1", 1, 3, "expected , or ] in an array"), ("{\"a\":\n", 2, 1, "the text ends where a value should be"),
        ("01", 1, 3, "this is not a number"), ("-", 1, 2, "this is not a number"), ("1.", 1, 3, "expected a digit"),
        ("1e+x", 1, 4, "expected a digit"), ("\"ab", 1, 4, "the text ends inside a string"),
        ("\"a\\", 1, 4, "the text ends inside a string"),
        ("\"a\nb\"", 1, 3, "a control character in a string"), ("\"a\\xb\"", 1, 4, "unknown escape in a string"),
        ("\"\\u12g4\"", 1, 4, "expected four hexadecimal digits"),
        ("\"\\ud83d\\uzzzz\"", 1, 10, "expected four hexadecimal digits"),
        ("\"\\ud83d\"", 1, 8, "half of a surrogate pair"), ("\"\\ud83d\\u0041\"", 1, 14, "half of a surrogate pair"),
        ("\"\\ude00\"", 1, 8, "half of a surrogate pair"),
        ("{\"a\":1,\n\"a\":2}", 2, 1, "\"a\" comes twice in one object"),
        ("{\"é\":1,\"é\":2}", 1, 9, "\"é\" comes twice in one object"),
    ])
    func definitions(text: String, line: Int, column: Int, words: String) {
        do {
            _ = try SourceText.read(Array(text.utf8))
            Issue.record("\(text) was taken")
        } catch {
            #expect(error.reason == words)
            #expect(error.position == SourcePosition(line: line, column: column))
        }
    }

    @Test func definitionsOfOtherKinds() {
        for (bytes, words) in [
            ([0x22, 0xFF, 0x22], "this is not UTF-8"),
            (Array(String(repeating: "[", count: 66).utf8), "the text is more than 64 levels deep"),
        ] as [([UInt8], String)] {
            do {
                _ = try SourceText.read(bytes)
                Issue.record("\(words) was expected")
            } catch {
                #expect(error.reason == words)
            }
        }
    }

    /// Each value and key records its position, by lines and bytes.
    @Test func positionsOfValues() throws {
        let value = try SourceText.read(Array("{\n  \"é\": [1,\n true],\r\n\t\"b\" : \"x\"}".utf8))
        guard case .object(let members) = value.kind, case .array(let items) = members[0].value.kind else {
            Issue.record("not an object with an array")
            return
        }
        #expect(value.position == SourcePosition(line: 1, column: 1))
        #expect(members.map(\.key) == ["é", "b"])
        #expect(members.map(\.position) == [SourcePosition(line: 2, column: 3), SourcePosition(line: 4, column: 2)])
        #expect(items.map(\.position) == [SourcePosition(line: 2, column: 10), SourcePosition(line: 3, column: 2)])
        #expect(members[1].value.position == SourcePosition(line: 4, column: 8))
    }
}
