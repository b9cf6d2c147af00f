/// Hand-written patterns, each of which behaves differently in other dialects.
enum RegexSamples {
    static let all: [OraclePattern] =
        whole.map {
            OraclePattern(rules: "^\($0)$", library: $0, isAnchoredAtStart: true, isAnchoredAtEnd: true, texts: $1)
        }
        + found.map { OraclePattern(rules: $0, library: $0, texts: $1) }
        + refused.map { OraclePattern(rules: $0, library: $0, texts: ["a"]) }

    /// Patterns with both anchors.
    private static let whole: [(String, [String])] = [
        (".{1,500}", ["two\nlines", "", "a"]), ("a.c", ["a\nc", "a\rc", "a\u{2028}c", "a😀c"]), ("..", ["😀", "a"]),
        ("a{1500}", [String(repeating: "a", count: 1500), String(repeating: "a", count: 1499)]),
        ("a{0,1200}", ["", String(repeating: "a", count: 1200), String(repeating: "a", count: 1201)]),
        ("(ab){1001,1003}", [String(repeating: "ab", count: 1002), String(repeating: "ab", count: 1004)]),
        ("a+?", ["", "a", "aa"]), ("a*?", ["", "aa", "b"]), ("a++", ["", "aa"]), ("a**", ["", "aaa"]),
        ("a??", ["", "a", "aa"]),
        ("\\b", ["b", ""]), ("\\1", ["1"]), ("\\t\\n", ["tn", "\t\n"]), ("[]]", ["]", ""]), ("[^]]", ["a", "]"]),
        ("[]a]", ["]", "a", "b"]), ("()", ["", "a"]), ("(())*", ["", "a"]), ("a{2}{3}", ["aaaaaa", "aa", "aaa"]),
        ("a{2}?", ["", "a", "aa"]), ("a{2}*", ["", "aa", "aaa", "aaaa"]), ("a{3,2}", ["aaa", "aa", ""]),
        ("a{0}", ["", "a"]),
        ("a{0,0}b", ["b", "ab"]), ("[c-a]", ["a", "b", "c", ""]), ("[c-a]*x", ["x", "cx"]),
        ("[a-c-e]", ["b", "-", "d", "e"]),
        ("[--a]", ["-", ".", "a"]), ("[+--]", [",", "*"]), ("[a-]", ["a", "-"]), ("[-a]", ["a", "-"]), ("[😀]", ["😀"]),
        ("[😀]{2}", ["😀", "😁"]), ("😀+", ["😀", "😀😀"]), ("(😀)+", ["😀", "😀😀"]), ("a|b", ["a", "b", "ab"]),
        ("ab|cd", ["ab", "cd", "abzz", "zzcd"]), ("|a", ["|a", "a", ""]), ("(|a)", ["|a", "a"]),
        ("a||b", ["a", "|b", "b", ""]),
        ("*a", ["*a", "a"]), ("(*)", ["*"]), ("(?:x)", ["?:x", "x"]), ("(?=x)", ["?=x", ""]), ("a|*", ["a", "*"]),
        ("{", ["{"]),
        ("{2}", ["{2}"]), ("}", ["}"]), (")", [")"]), ("|", ["|"]), ("(a|))", ["a", ")"]),
        ("\"a*\"", ["a*", "aa", "\"a*\""]),
        ("\"\"", [""]), ("\"a\"{2}", ["aa", "a"]), ("\\\"", ["\""]), ("[\"]", ["\""]), ("@", ["@", "a"]),
        ("#", ["#", ""]),
        ("a&b", ["a&b", "a"]), ("~a", ["~a", "b"]), ("<a>", ["<a>"]), ("<1-9>", ["<1-9>", "5"]),
        ("[[:alpha:]]", [":]", "a"]),
        ("\\Qa\\E", ["QaE"]), ("\\pL", ["pL", "a"]), ("a{01}", ["a"]), ("[\\]\\\\]", ["]", "\\"]),
        ("[.*+(){}|]", [".", "a"]),
        ("((a|b)*c){2,3}", ["acbc", "cc", "c", "abcabcc", "cccc"]), ("", ["", "a"]),
    ]

    /// Patterns without anchors.
    private static let found: [(String, [String])] = [
        ("<.+>", ["<img\nsrc=x>", "x<b>y", "<>"]), ("a|bc", ["ac", "bc", "b"]), ("a{2,3}", ["a", "xaax", "aaaa"]),
        (".{2,9}", ["a", "ab", "😀"]), ("x*", ["", "a"]), ("(a|b)?c", ["c", "d"]), ("a{3,2}", ["aaa"]),
        ("()", ["", "a"]),
    ]

    private static let refused = [
        "a|", "(a|)", "(up|down|)", "a)", "a{1})", "(a", "a(", "a|(", "[", "[]", "[^]", "[^", "[a", "[a-", "[\\",
        "[^\\]", "\\",
        "a\\", "\"a", "a{,3}", "a{", "a{}", "a{x}", "a{2", "a{2,", "x{2}{", "a{99999999999}", "a{1,99999999999}",
        "a{2147483648}",
    ]
}
