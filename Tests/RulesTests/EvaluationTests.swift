import Rules
import Testing
import Tree

/// Checks the values of expressions that the reference's table does not cover.
@Suite struct EvaluationTests {
    @Test(arguments: [
        "1e21 + '' == '1e+21'", "100000000000000000000 + '' == '100000000000000000000'",
        "1 / 3 + '' == '0.3333333333333333'",
        "0.000001 + '' == '0.000001'", "1 / 10000000 + '' == '1e-7'", "1.5e300 + '' == '1.5e+300'", "-0 + '' == '0'",
        "123456789.5 + '' == '123456789.5'", "1e300 * 1e300 + '' == 'Infinity'", "-1.25 + '' == '-1.25'",
        ".5 + 1. == 1.5", "0xfF == 255", "1 + 2 + 'a' + 1 + 2 == '3a12'", "'\\x41\\u0042' == 'AB'",
    ])
    func numbersAsText(expression: String) throws { #expect(try evaluates(expression)) }

    @Test(arguments: [
        "'aXbXc'.replace('X', '') == 'abc'", "'aaa'.replace('aa', 'b') == 'ba'", "'ab'.replace('', '-') == '-a-b-'",
        "''.replace('', 'x') == 'x'", "'é😀'.length == 3", "'ÀÉ'.toLowerCase() == 'àé'", "'ß'.toUpperCase() == 'SS'",
        "'\u{E000}' > '😀'", "'a' < 'b' && 'a' < 'aa' && '' < 'a'", "'\\n\\t\\'\\\\' == \"\\x0a\\x09'\\\\\"",
        "'e\u{301}' != 'é'", "'abcabd'.contains('abd')", "!'abc'.contains('abcd')", "'abc'.endsWith('')",
        "true /* a comment */ // and another\n && true", "'a'\n==\t'a'", "'a' .length == 1",
        "'a'\u{A0}==\u{A0}'a'\u{A0}&&\u{A0}now\u{A0}>\u{2028}0",
    ])
    func strings(expression: String) throws { #expect(try evaluates(expression)) }

    @Test(arguments: [
        "data.child('a/' + 'b').val() == 1", "data.child('a' + '/b').val() == 1", "data.child('/a//b/').val() == 1",
        "data.child('x' + 1).val() == 2", "data.child('x' + data.child('one').val()).val() == 2",
        "data.child(data.child('ab').val()).val() == 1", "data.child(data.child('ab').val() + '').val() == 1",
        "data.child('' + data.child('ab').val()).parent().hasChild('b')", "data.child('').child('a').exists()",
        "data.child(1 + 2 + '').val() == 'three'", "data.child(data.child('one').val() + 2 + '').val() == 'three'",
        "data.child('' + data.child('one').val() + 2).val() == 'twelve'", "data.hasChildren(['a/' + 'b', 'x' + 1])",
        "data.parent().child('p/a/b').val() == 1", "data.parent().exists()",
        "root.child('p').child('a').parent().child('one').val() == 1",
        "(auth == null ? data : root).child('a').parent().hasChild('a')",
        "data.child('q/r/s').parent().parent().parent().hasChild('a')", "!data.child('.priority').exists()",
        "data.child(data.child('slashes').val()).val() == 1",
        "data.child('nothing/' + data.child('ab').val()).exists() == false",
    ])
    func paths(expression: String) throws {
        let data = """
            {"a": {"b": 1}, "x1": 2, "one": 1, "ab": "a/b", "3": "three", "12": "twelve", "slashes": "//a///b/",
            ".priority": 3}
            """
        #expect(try evaluates(expression, data: data))
    }

    @Test(arguments: [
        "data.child('nothing/' + data.child('z').val()).exists() || true",
        "data.child('a/' + data.child('t').val()).exists() || true",
        "data.hasChildren(['q', data.child('n').val()]) || true",
        "data.child(data.child('n').val()).exists() || true",
        "data.child(data.child('n').val() + data.child('n').val()).exists() || true",
        "data.parent().parent().exists() || true", "root.child('a').parent().parent().exists() || true",
    ])
    func pathsThatAreErrors(expression: String) throws {
        #expect(try !evaluates(expression, data: "{\"n\": 1, \"t\": true}"))
    }

    @Test(arguments: [
        ("auth.token['https://a.b/c'] == 1", true), ("auth.token.list[1] == 'b'", true),
        ("auth.token['list']['0'] == 'a'", true),
        ("auth.token[auth.uid] == 7", true), ("auth.token.constructor == null", true),
        ("auth.token.n.m.o == null", true),
        ("auth.token.map == auth.token.map", false), ("auth != null", true), ("auth.uid.length == null", true),
    ])
    func claims(expression: String, expected: Bool) throws {
        let claims: [(Key, Node)] = [
            (Key("https://a.b/c"), .int(1)), (Key("list"), try JSONParser.parse("[\"a\", \"b\"]")), (Key("u"), .int(7)),
            (Key("n"), .int(3)), (Key("map"), try JSONParser.parse("{\"a\": 1}")),
        ]
        let auth = Node(children: [(Key("uid"), .string("u")), (Key("token"), Node(children: claims))])
        let rules = try rules("{\"rules\":{\".read\":\"\(expression)\"}}")
        let decision = rules.mayRead(.root, query: nil, root: .null, auth: AuthContext(auth: auth), now: 0)
        #expect(decision.isAllowed == expected)
    }

    @Test(arguments: [
        ("^a.c$", "a\u{1F600}c", false), ("^a..c$", "a\u{1F600}c", true), ("^a.c$", "a\nc", true),
        ("^[a-]+$", "a-a", true), ("^.{1,500}$", "two\nlines", true), ("<.+>", "<img\nsrc=x>", true),
        ("^[\\w.-]+$", "a.b-c_1", true), ("^[^\\s]+$", "a b", false), ("^\\s$", "\u{A0}", false),
        ("^[\\S]$", "\u{A0}", true), ("^\\s+$", " \t\r\n", true), ("\\s", "\u{C}\u{B}", false),
        ("x{2}", "axxb", true), ("^ab|cd$", "ab", true), ("^ab|cd$", "cd", true), ("^ab|cd$", "abzz", false),
        ("^ab|cd$", "zzcd", false), ("^ab|cd", "cdzz", true), ("ab|cd$", "zzab", true), ("ab|cd$", "abzz", false),
        ("(?:x)", "?:x", true), ("(+a)", "+a", true), ("^\\$\\^$", "$^", true), ("^$", "", true), ("^$", "a", false),
        ("^[[:alpha:]]$", ":]", true), ("\\Qa\\E", "QaE", true), ("É", "é", false), ("^.{1,1000}$", "abc", true),
        ("[\\]]", "]", true), ("^[+--]$", ",", true), ("^[]]$", "]", true), ("^()$", "", true), ("^a+?$", "aa", true),
        ("^\\b$", "b", true), ("^.{3,5000}$", "ab", false), ("^.{3,5000}$", "abc", true),
    ])
    func regexes(pattern: String, text: String, expected: Bool) throws {
        let value = String(decoding: JSONWriter.encode(.string(text), form: .plain), as: UTF8.self)
        #expect(try evaluates("data.val().matches(/\(pattern)/)", data: value) == expected)
    }

    @Test(arguments: [
        "(a", "a)", "[]", "[^]", "a{,3}", "a{", "a^", "$a", "(a$)", "a|", "(a|)", "a\\", "a{99999999999}",
        "((a{1000}){1000}){1000}",
    ])
    func badRegexes(pattern: String) {
        let escaped = pattern.replacing("\\", with: "\\\\")
        #expect(uploadError("{\"rules\":{\".read\":\"auth.uid.matches(/\(escaped)/)\"}}") != nil)
    }

    /// Checks patterns from public discussions.
    @Test(arguments: [
        ("^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,14}$", "first.last-1@mail.example.com", true),
        ("^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,14}$", "a b@example.com", false),
        ("[`~!@#$%^&*()_|+\\-=?;:',.<>\\{\\}\\[\\]\\\\\\/]", "a]b", true),
        ("[`~!@#$%^&*()_|+\\-=?;:',.<>\\{\\}\\[\\]\\\\\\/]", "a\\b", true),
        ("[`~!@#$%^&*()_|+\\-=?;:',.<>\\{\\}\\[\\]\\\\\\/]", "abc 123", false),
        ("^(up|down)$", "up", true), ("^\\s*$", " \t\r\n", true), ("^https?:\\/\\/[^\\s]+$", "https://a.b/?c", true),
    ])
    func publicPatterns(pattern: String, text: String, expected: Bool) throws {
        try regexes(pattern: pattern, text: text, expected: expected)
    }

    @Test func queriesOfTheWire() {
        let bound = Query.Bound(value: .init(.int(3)))
        #expect(QueryContext(nil).order == .none)
        #expect(QueryContext(Query()).order == .none)
        #expect(QueryContext(Query(limit: .first(2))).order == .key)
        #expect(QueryContext(Query(), namesPriority: true).order == .priority)
        let query = QueryContext(Query(index: .child("a/b"), start: bound, end: bound, limit: .last(4)))
        #expect(query.order == .child("a/b") && query.equalTo == .int(3) && query.limitToLast == 4)
        #expect(QueryContext(Query(index: .value, start: bound)).equalTo == .null)
        #expect(QueryContext.overREST(nil).order == .key)
        #expect(QueryContext.overREST(Query(index: .priority)).order == .priority)
        #expect(QueryContext.overREST(Query(index: .value)).order == .value)
    }
}
