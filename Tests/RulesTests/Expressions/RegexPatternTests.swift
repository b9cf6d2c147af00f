import Testing

@testable import Rules

/// Patterns of the rules language in RE2's syntax: each character by its code.
@Suite struct RegexPatternTests {
    private func translated(_ pattern: String) -> String? { try? RegexPattern.translate(pattern).pattern }

    /// A text as a translation has it.
    private func codes(_ text: String) -> String {
        text.unicodeScalars.map { "\\x{\(String($0.value, radix: 16, uppercase: true))}" }.joined()
    }

    @Test func everyCharacterByItsCode() {
        #expect(translated("abc") == codes("abc"))
        #expect(translated("é😀") == "\\x{E9}\\x{1F600}")
        #expect(translated("^a$") == "^\\x{61}$")
        #expect(translated("a|b") == "\\x{61}|\\x{62}")
        #expect(translated("(a)(b|c)") == "(?:\\x{61})(?:\\x{62}|\\x{63})")
        #expect(translated("\\.\\/\\\\\\$") == codes("./\\$"))
        #expect(translated("\\d\\D\\w\\W") == "\\d\\D\\w\\W")
        #expect(translated(".") == "[^\\n\\r\\x{2028}\\x{2029}]")
        // Nothing of RE2's own syntax gets through.
        #expect(translated("\\pL") == codes("pL"))
        #expect(translated("\\Qa\\E") == codes("QaE"))
    }

    @Test func quantifiers() {
        #expect(translated("a*b+c?") == "\\x{61}*\\x{62}+\\x{63}?")
        #expect(translated("a{2}") == "\\x{61}{2}" && translated("a{2,}") == "\\x{61}{2,}")
        #expect(translated("a{2,3}") == "\\x{61}{2,3}" && translated("a{2,2}") == "\\x{61}{2}")
        #expect(translated("a{0}") == "\\x{61}{0}" && translated("a{1000}") == "\\x{61}{1000}")
        // Braces that count nothing are themselves.
        for text in ["a{", "a{}", "a{,2}", "a{x}", "a{2", "a{2,", "a{2,x}", "{", "}", "a}"] {
            #expect(translated(text) == codes(text), "\(text)")
        }
        #expect(translated("(a|b){2}") == "(?:\\x{61}|\\x{62}){2}")
        #expect(translated("[ab]*") == "[\\x{61}\\x{62}]*")
    }

    @Test func classes() {
        #expect(translated("[a-c]") == "[\\x{61}-\\x{63}]")
        #expect(translated("[^a]") == "[^\\x{61}]")
        #expect(translated("[-a]") == "[\\x{2D}\\x{61}]" && translated("[a-]") == "[\\x{61}\\x{2D}]")
        #expect(translated("[\\d-x]") == "[\\d\\x{2D}\\x{78}]" && translated("[a-\\d]") == "[\\d\\x{61}\\x{2D}]")
        #expect(translated("[.*+?(){}|$^]") == "[" + codes(".*+?(){}|$^") + "]")
        #expect(translated("[\\]\\\\]") == "[" + codes("]\\") + "]")
        #expect(translated("[[:alpha:]]") == "[" + codes("[:alpha:") + "]" + codes("]"))
        #expect(translated("[é-😀]") == "[\\x{E9}-\\x{1F600}]")
        #expect(translated("[\\-]") == "[\\x{2D}]")
    }

    @Test(arguments: [
        ("", "empty alternative in regular expression"), ("a|", "empty alternative in regular expression"),
        ("|a", "empty alternative in regular expression"), ("()", "empty alternative in regular expression"),
        ("(a|)", "empty alternative in regular expression"), ("(a", "missing ) in regular expression"),
        ("a)", "unmatched ) in regular expression"), ("*a", "nothing to repeat in regular expression"),
        ("a|*", "nothing to repeat in regular expression"), ("{2}", "nothing to repeat in regular expression"),
        ("a**", "nothing to repeat in regular expression (lazy quantifiers are not supported)"),
        ("a+?", "nothing to repeat in regular expression (lazy quantifiers are not supported)"),
        ("a{2}?", "nothing to repeat in regular expression (lazy quantifiers are not supported)"),
        ("a{2}{3}", "nothing to repeat in regular expression"), ("a*{3}", "nothing to repeat in regular expression"),
        ("a{3,2}", "numbers out of order in {} quantifier"), ("a{1001}", "a quantifier may not exceed 1000"),
        ("a{1,1001}", "a quantifier may not exceed 1000"),
        ("a{99999999999999999999}", "a quantifier may not exceed 1000"),
        ("a^", "^ is only allowed as the first character of a regular expression"),
        ("a|^b", "^ is only allowed as the first character of a regular expression"),
        ("(^a)", "^ is only allowed as the first character of a regular expression"),
        ("$a", "$ is only allowed as the last character of a regular expression"),
        ("a$|b", "$ is only allowed as the last character of a regular expression"),
        ("\\b", "\\b is not supported in regular expressions"), ("\\B", "\\B is not supported in regular expressions"),
        ("(a)\\1", "\\1 is not supported in regular expressions"),
        ("[\\b]", "\\b is not supported in regular expressions"),
        ("a\\", "\\ at end of regular expression"), ("[", "unterminated character class in regular expression"),
        ("[a", "unterminated character class in regular expression"),
        ("[\\", "unterminated character class in regular expression"),
        ("[]", "empty character class in regular expression"), ("[^]", "empty character class in regular expression"),
        ("[c-a]", "invalid range in character class"),
    ]) func refusals(pattern: String, message: String) {
        do throws(RegexPattern.Invalid) {
            let translation = try RegexPattern.translate(pattern)
            Issue.record("\(pattern) becomes \(translation.pattern)")
        } catch {
            #expect(error.message == message, "\(pattern)")
        }
    }

    @Test func warnings() throws {
        #expect(
            try RegexPattern.translate("(?:a)").warnings == ["'(?' in a regular expression looks for the character '?'"]
        )
        #expect(
            try RegexPattern.translate("\\t\\n").warnings == [
                "'\\t' in a regular expression looks for the character 't'",
                "'\\n' in a regular expression looks for the character 'n'",
            ])
        #expect(try RegexPattern.translate("[\\0]").warnings.count == 1)
        #expect(try RegexPattern.translate("^[a-z]+\\.\\d{2}$").warnings.isEmpty)
    }
}
