import Testing

@testable import Rules

/// Checks how expressions are split into tokens.
@Suite struct LexerTests {
    private func tokens(_ text: String) throws -> [Token] {
        var lexer = Lexer(Array(text.utf8))
        var tokens: [Token] = []
        while case let token = try lexer.next(), token != .end { tokens.append(token) }
        return tokens
    }

    /// Returns the offset of the first invalid token, and the error's message.
    private func mistake(_ text: String) -> (offset: Int, message: String)? {
        var lexer = Lexer(Array(text.utf8))
        do throws(TextError) {
            while try lexer.next() != .end {}
            return nil
        } catch {
            return (error.offset, error.message)
        }
    }

    @Test func marks() throws {
        let all = "( ) [ ] , . ? : ! - + * / % == === != !== < <= > >= && || ="
        let expected = all.split(separator: " ").map { Token.mark(Token.Mark(rawValue: String($0)) ?? .assign) }
        #expect(try tokens(all) == expected)
        // Without spaces the longest operator matches.
        #expect(
            try tokens("a===b==c!==d!=e<=f<g>=h>i&&j||k").filter { if case .mark = $0 { true } else { false } }
                == [
                    .identical, .equal, .notIdentical, .unequal, .lessOrEqual, .less, .greaterOrEqual, .greater, .and,
                    .or,
                ]
                .map { Token.mark($0) })
        #expect(try tokens("!!a") == [.mark(.not), .mark(.not), .identifier("a")])
        #expect(try tokens("====") == [.mark(.identical), .mark(.assign)])
        #expect(
            try tokens("a.b[0]()") == [
                .identifier("a"), .mark(.dot), .identifier("b"), .mark(.openBracket), .number(0), .mark(.closeBracket),
                .mark(.openParenthesis), .mark(.closeParenthesis),
            ])
    }

    @Test(
        arguments: [
            ("0", 0), ("7", 7), ("123", 123), ("1.5", 1.5), (".5", 0.5), ("1.", 1), ("1e3", 1_000), ("1E+3", 1_000),
            ("25e-1", 2.5), ("1.e1", 10), (".5e1", 5), ("0.1", 0.1), ("0x0", 0), ("0xfF", 255), ("0XA", 10),
            ("0x1fffffffffffff", 9_007_199_254_740_991), ("9007199254740993", 9_007_199_254_740_992),
            ("1e400", .infinity), ("1e-400", 0), ("0e5", 0), ("1e0", 1),
        ] as [(String, Double)])
    func numbers(text: String, value: Double) throws {
        #expect(try tokens(text) == [.number(value)])
        #expect(try tokens("(\(text))") == [.mark(.openParenthesis), .number(value), .mark(.closeParenthesis)])
    }

    @Test(arguments: [
        ("''", ""), ("\"\"", ""), ("'a'", "a"), ("\"a'b\"", "a'b"), ("'a\"b'", "a\"b"), (#"'\''"#, "'"),
        (#"'\"'"#, "\""),
        (#"'\\'"#, "\\"), (#"'\b\f\n\r\t\v\0'"#, "\u{8}\u{C}\n\r\t\u{B}\0"), (#"'\x41\x7a'"#, "Az"),
        (#"'\u00e9'"#, "é"),
        (#"'\ud83d\ude00'"#, "😀"), (#"'\q\/\ '"#, "q/ "), ("'é😀'", "é😀"), ("'a\tb'", "a\tb"), (#"'\x00'"#, "\0"),
        ("'//no comment /* here */'", "//no comment /* here */"), (#"'\é'"#, "é"), ("'\u{2028}'", "\u{2028}"),
    ]) func strings(text: String, value: String) throws {
        #expect(try tokens(text) == [.string(value)])
    }

    @Test(arguments: [
        "a", "_", "$", "$room", "a1", "_1", "é", "日本", "aéb", "true", "null", "newData", "constructor", "😀",
    ]) func identifiers(text: String) throws {
        #expect(try tokens(text) == [.identifier(text)])
        #expect(try tokens("(\(text) )")[1] == .identifier(text))
    }

    @Test(arguments: [
        "a b", "a\tb", "a\nb", "a\r\nb", "a\u{B}b", "a\u{C}b", "a\u{A0}b", "a\u{FEFF}b", "a\u{2028}b", "a\u{2029}b",
        " a // comment\n b ", "a/**/b", "a/* * / ** /*/b", "a // to the end\nb // and here", "/* first */ a b",
        "a/*\n*/b", "a /***/ b",
    ]) func spaceAndComments(text: String) throws {
        #expect(try tokens(text) == [.identifier("a"), .identifier("b")])
    }

    @Test func nothing() throws {
        for text in ["", " ", "// x", "/* x */", "\u{A0}\n"] { #expect(try tokens(text).isEmpty) }
    }

    @Test(arguments: [
        ("a # b", 2, "illegal character"), ("@", 0, "illegal character"), ("a & b", 2, "illegal character"),
        ("a | b", 2, "illegal character"), ("~a", 0, "illegal character"), ("a ^ b", 2, "illegal character"),
        ("a; b", 1, "illegal character"), ("{", 0, "illegal character"), ("`a`", 0, "illegal character"),
        ("\\", 0, "illegal character"), ("a\u{0}", 1, "illegal character"),
        ("1 --a", 2, "syntax error"), ("--", 0, "syntax error"),
        ("01", 0, "a number may not begin with 0"), ("1 + 007", 4, "a number may not begin with 0"),
        ("1x", 0, "identifier starts immediately after number"),
        ("1.5é", 0, "identifier starts immediately after number"),
        ("0x1g", 0, "identifier starts immediately after number"),
        ("1e5$", 0, "identifier starts immediately after number"),
        ("0x", 0, "syntax error"), ("1e", 0, "missing exponent"), ("a == 1e+", 5, "missing exponent"),
        ("'a", 0, "unterminated string literal"), ("a 'b\nc'", 2, "unterminated string literal"),
        ("'a\r'", 0, "unterminated string literal"), (#"'a\"#, 0, "unterminated string literal"),
        ("'a\\\n'", 0, "unterminated string literal"), ("\"a'", 0, "unterminated string literal"),
        (#"'\x4'"#, 0, "malformed escape"), (#"'\xg0'"#, 0, "malformed escape"), (#"'\u12'"#, 0, "malformed escape"),
        (#"'\ud800'"#, 0, "a lone surrogate is not text"), (#"'\udc00'"#, 0, "a lone surrogate is not text"),
        (#"'\ud800A'"#, 0, "a lone surrogate is not text"), (#"'\ud800\ud800'"#, 0, "a lone surrogate is not text"),
        (#"'\1'"#, 0, "octal escapes are not supported"), (#"'\01'"#, 0, "octal escapes are not supported"),
        (#"'\9'"#, 0, "octal escapes are not supported"),
        ("/* a", 0, "unterminated comment"), ("a /* * /", 2, "unterminated comment"),
        ("/*/", 0, "unterminated comment"),
    ]) func mistakes(text: String, offset: Int, message: String) {
        let found = mistake(text)
        #expect(found?.offset == offset && found?.message == message, "\(text): \(String(describing: found))")
    }

    /// A slash is an operator until the parser expects an operand.
    @Test(arguments: [
        ("/a/", "a", false), ("/a/i", "a", true), ("/a\\/b/", "a\\/b", false), ("/[/]/", "[/]", false),
        ("/[\\]/]/i", "[\\]/]", true), ("/é😀/", "é😀", false), ("/ //", " ", false),
    ]) func regularExpressions(text: String, pattern: String, ignoresCase: Bool) throws {
        var lexer = Lexer(Array(text.utf8))
        #expect(try lexer.next() == .mark(.slash))
        let regex = try lexer.regex()
        #expect(regex.pattern == pattern && regex.ignoresCase == ignoresCase)
    }

    @Test(arguments: [
        ("/a", "unterminated regular expression literal"), ("/a\n/", "unterminated regular expression literal"),
        ("/[a/", "unterminated regular expression literal"), ("/a\\", "unterminated regular expression literal"),
        ("/a\\\n/", "unterminated regular expression literal"),
        ("/a/g", "regular expressions do not support flags other than i"),
        ("/a/ii", "regular expressions do not support flags other than i"),
        ("/a/ix", "regular expressions do not support flags other than i"),
    ]) func wrongRegularExpressions(text: String, message: String) throws {
        var lexer = Lexer(Array(text.utf8))
        _ = try lexer.next()
        do throws(TextError) {
            _ = try lexer.regex()
            Issue.record("\(text) is accepted")
        } catch {
            #expect(error.message == message && error.offset == 0)
        }
    }

    /// Any bytes at all result in tokens or in one error, at an offset inside the text.
    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func noise(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let pieces = [
            "a", "'", "\"", "\\", "/", "*", "//", "0", "1", ".", "e", "x", "=", "!", "&", "\n", "é", "\u{A0}", "-",
        ]
        for _ in 0..<3_000 {
            let text = (0..<random.below(20)).map { _ in pieces[random.below(pieces.count)] }.joined()
            if let found = mistake(text) { #expect((0...text.utf8.count).contains(found.offset), "\(text)") }
        }
    }
}
