import Testing

@testable import Rules

/// Checks the results of the parser of regular expressions, and its error messages.
@Suite struct RegexParserTests {
    private func parsed(_ pattern: String) throws -> RegexParser.Result {
        var work = 0
        return try RegexParser.parse(RegexLiteral(pattern: pattern, ignoresCase: false), work: &work)
    }

    private func unit(_ character: Unicode.Scalar) -> RegexSyntax { .units(UnitSet(UInt16(character.value))) }

    @Test func trees() throws {
        let (a, b, c) = (unit("a"), unit("b"), unit("c"))
        #expect(try parsed("abc").syntax == .sequence([a, b, c]))
        #expect(try parsed("a(bc)").syntax == .sequence([a, .sequence([b, c])]))
        #expect(try parsed("ab|c").syntax == .choice([.sequence([a, b]), c]))
        #expect(try parsed("a|b|(c)").syntax == .units(UnitSet([0x61...0x63])))
        #expect(try parsed(".").syntax == .units(.all))
        #expect(try parsed("a{2,3}").syntax == .repeated(a, low: 2, high: 3))
        #expect(try parsed("a{2,}").syntax == .repeated(a, low: 2, high: nil))
        #expect(try parsed("ab*").syntax == .sequence([a, .repeated(b, low: 0, high: nil)]))
        #expect(try parsed("é😀").syntax == .sequence([0xE9, 0xD83D, 0xDE00].map { .units(UnitSet($0)) }))
    }

    /// Chains of operators result in small trees, however long they are.
    @Test func simplifications() throws {
        let a = unit("a")
        for (pattern, low, high) in [
            ("a*", 0, nil), ("a**", 0, nil), ("a+?", 0, nil), ("a?+", 0, nil), ("a++", 1, nil), ("a??", 0, 1),
            ("a{0,}", 0, nil), ("a{1,}{0,1}", 0, nil),
        ] as [(String, Int, Int?)] {
            #expect(try parsed(pattern).syntax == .repeated(a, low: low, high: high), "\(pattern)")
        }
        let chain = String(repeating: "*", count: 100_000)
        #expect(try parsed("a" + chain).syntax == .repeated(a, low: 0, high: nil))
        #expect(try parsed("a" + String(repeating: "{1}", count: 100_000)).syntax == a)
        for pattern in ["", "()", "(())", "()*", "(){5}", "a{0}", "\"\"", "a{3,2}*", "[c-a]{0,4}"] {
            #expect(try parsed(pattern).syntax == .empty, "\(pattern)")
        }
        for pattern in ["a{3,2}", "[c-a]", "a[c-a]b", "([c-a]|a{1,0})", "a{3,2}{2}"] {
            #expect(try parsed(pattern).syntax == .nothing, "\(pattern)")
        }
    }

    @Test(arguments: [
        ("a", false, false), ("^a", true, false), ("a$", false, true), ("^a$", true, true), ("^", true, false),
        ("$", false, true), ("^$", true, true), ("a\\$", false, false), ("a\\\\$", false, true), ("\\^a", false, false),
        ("^ab|cd$", true, true), ("[$]", false, false), ("[^$]", false, false),
    ]) func anchors(pattern: String, start: Bool, end: Bool) throws {
        let result = try parsed(pattern)
        #expect(result.isAnchoredAtStart == start && result.isAnchoredAtEnd == end)
    }

    /// Predefined sets include the other cases of their letters; for other wide sets the work of finding them counts.
    @Test func workIsCounted() throws {
        func size(_ pattern: String) throws -> Int {
            var work = 0
            let parsed = try RegexParser.parse(RegexLiteral(pattern: pattern, ignoresCase: true), work: &work)
            #expect(work <= parsed.size)
            return parsed.size
        }
        #expect(try size("\\W") < 20 && size("\\w") < 20)
        #expect(try size("[\\W]") > 200 && size("[Ѐ-ѿ]") > 10)
        #expect(try size("(\(String(repeating: "\\W", count: 100)))?") > 500)
        var work = 0
        #expect(throws: RegexParser.Invalid.self) {
            try RegexParser.parse(RegexLiteral(pattern: "[\\W])", ignoresCase: true), work: &work)
        }
        #expect(work > 200)
        #expect(UnitSet.word.complement.ignoringCase(&work) == UnitSet.word.complement)
        #expect(UnitSet.space.complement.ignoringCase(&work) == UnitSet.space.complement)
    }

    @Test func oneWarningOfAKind() throws {
        #expect(try parsed("a++a+?\\b\\t\"a\"\"b\"[c-a][b-a]a{2,1}b{3,1}").warnings.count == 5)
    }

    @Test func nestingIsBounded() throws {
        func nested(_ count: Int) -> String {
            String(repeating: "(", count: count) + "a" + String(repeating: ")", count: count)
        }
        #expect(throws: Never.self) { try parsed(nested(100)) }
        #expect(throws: RegexParser.Invalid(message: "regular expression nested too deeply")) {
            try parsed(nested(101))
        }
        // Groups side by side are not nested.
        #expect(throws: Never.self) { try parsed(String(repeating: "(a)", count: 500)) }
    }

    @Test(arguments: [
        "((a{1000}){1000}){1000}", "a{2147483647}", "(a{2}){100001}", ".{100001}",
        "a{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}",
        "(a|b{60000}|c{60000})", "^[0-9a-z]{0,60000}$", "a{0,2147483647}",
    ]) func largeOnesAreRefused(pattern: String) {
        do {
            _ = try Regex(RegexLiteral(pattern: pattern, ignoresCase: false))
            Issue.record("\(pattern) is accepted")
        } catch {
            #expect(error.message.hasPrefix("The regular expression is too large"), "\(error.message)")
        }
    }

    /// The library's error messages have Firebase's prefix; the other messages are this project's.
    @Test(arguments: [
        ("^(up|down|)$", "Illegal regular expression, expected ')' at position 10"),
        ("a|", "Illegal regular expression, unexpected end-of-string"),
        ("a)", "Illegal regular expression, end-of-string expected at position 1"),
        ("^a)$", "Illegal regular expression, end-of-string expected at position 1"),
        ("[a", "Illegal regular expression, expected ']' at position 2"),
        ("😀[a", "Illegal regular expression, expected ']' at position 4"),
        ("\"a", "Illegal regular expression, expected '\"' at position 2"),
        ("a{,3}", "Illegal regular expression, integer expected at position 2"),
        ("a{2", "Illegal regular expression, expected '}' at position 3"),
        ("a{99999999999}", "Illegal regular expression, For input string: \"99999999999\""),
        ("a^", "^ is only allowed as the first character of a regular expression"),
        ("a|^b", "^ is only allowed as the first character of a regular expression"),
        ("(^a)", "^ is only allowed as the first character of a regular expression"),
        ("^^a", "^ is only allowed as the first character of a regular expression"),
        ("$a", "$ is only allowed as the last character of a regular expression"),
        ("a$|b", "$ is only allowed as the last character of a regular expression"),
        ("(a$)", "$ is only allowed as the last character of a regular expression"),
    ]) func refusals(pattern: String, message: String) {
        #expect(throws: RegexParser.Invalid(message: message)) { try parsed(pattern) }
    }

    @Test(arguments: [
        ("(?:a)", "'(?' in a regular expression looks for the character '?'"),
        ("a||b", "'||' in a regular expression looks for the character '|'"),
        ("^*a", "'*' in a regular expression looks for the character '*'"),
        ("\\t", "'\\t' in a regular expression looks for the character 't'"),
        ("\\b", "'\\b' in a regular expression looks for the character 'b'"),
        ("[\\0]", "'\\0' in a regular expression looks for the character '0'"),
        ("a+?", "'+?' in a regular expression repeats a repetition: there are no lazy or possessive quantifiers"),
        ("a{2}+", "'}+' in a regular expression repeats a repetition: there are no lazy or possessive quantifiers"),
        ("a{3,2}", "'{3,2}' in a regular expression matches nothing"),
        ("[c-a]", "'c-a' in a regular expression is a range without characters"),
        (
            "\"a\"",
            "'\"' in a regular expression begins and ends a quoted text; '\\\"' looks for the character"
        ),
    ]) func warnings(pattern: String, warning: String) throws { #expect(try parsed(pattern).warnings == [warning]) }

    @Test(arguments: ["^[a-z]+\\.\\d{2}$", "\\\"\\/\\-", "(a|b)*", "[\"]", "a{2,3}b{0}"])
    func usualOnesHaveNoWarnings(pattern: String) throws { #expect(try parsed(pattern).warnings.isEmpty) }
}
