import Rules
import Testing

/// Checks every method with receivers and arguments of every kind (security-rules 3 and 5).
@Suite struct MethodTests {
    private static let data = """
        {"t":true,"n":3,"s":"Héllo😀","e":"","o":{"x":1,"y":{"z":2}},"p":{".value":"v",".priority":"pri"},
        "q":{"a":1,".priority":2.5},"list":["a","b"]}
        """

    private func outcome(_ expression: String) throws -> String {
        let isTrue = try evaluates(expression, data: Self.data)
        let isFalse = try evaluates("!(\(expression))", data: Self.data)
        return isTrue ? "true" : isFalse ? "false" : "error"
    }

    @Test(arguments: [
        ("t", "boolean"), ("n", "number"), ("s", "string"), ("e", "string"), ("o", "object"), ("p", "string"),
        ("q", "object"), ("nothing", "null"), ("o/x", "number"), ("o/x/deeper", "null"), ("list/0", "string"),
    ]) func typesOfSnapshots(path: String, type: String) throws {
        let snapshot = "data.child('\(path)')"
        #expect(try outcome("\(snapshot).isString()") == "\(type == "string")")
        #expect(try outcome("\(snapshot).isNumber()") == "\(type == "number")")
        #expect(try outcome("\(snapshot).isBoolean()") == "\(type == "boolean")")
        #expect(try outcome("\(snapshot).exists()") == "\(type != "null")")
        #expect(try outcome("\(snapshot).val() == null") == "\(type == "null")")
        #expect(try outcome("\(snapshot).hasChildren()") == "\(type == "object")")
    }

    @Test(arguments: [
        ("data.child('p').getPriority() == 'pri'", "true"), ("data.child('q').getPriority() == 2.5", "true"),
        ("data.child('n').getPriority() == null", "true"), ("data.child('nothing').getPriority() == null", "true"),
        ("data.child('p').val() == 'v'", "true"), ("data.child('q').val() == data.child('q').val()", "false"),
        ("data.child('o/y').parent().hasChild('x')", "true"),
        ("data.child('o/y/z').parent().parent().parent().hasChild('t')", "true"),
        ("data.parent().child('p/n').val() == 3", "true"), ("data.parent().parent().exists()", "error"),
        ("data.child('nothing/a/b').parent().exists()", "false"),
        ("data.child('nothing/a').parent().parent().hasChild('o')", "true"),
        ("data.hasChild('o')", "true"), ("data.hasChild('o/y/z')", "true"), ("data.hasChild('o/q')", "false"),
        ("data.hasChild('')", "true"), ("data.child('/o//y/').child('z').val() == 2", "true"),
        ("data.child('t').hasChild('x')", "false"), ("data.child(data.child('t').val()).exists()", "error"),
        ("data.child(data.child('n').val()).exists()", "error"), ("data.child('o/' + 'x').exists()", "true"),
        ("data.child('list').child(0 + '').val() == 'a'", "true"),
        ("data.child('lis' + 't/' + 1).val() == 'b'", "true"),
        ("data.hasChildren([])", "true"), ("data.child('o').hasChildren(['x', 'y'])", "true"),
        ("data.child('o').hasChildren(['x', 'w'])", "false"), ("data.child('o').hasChildren(['y/z'])", "true"),
        ("data.child('nothing').hasChildren(['x'])", "false"), ("data.child('n').hasChildren()", "false"),
        ("data.child('o').hasChildren(['q', data.child('n').val()])", "error"),
        ("root.child('p/n').val() == 3", "true"), ("root.hasChild('p')", "true"), ("root.parent().exists()", "error"),
        ("root.child('p').parent().hasChild('p')", "true"),
    ]) func snapshots(expression: String, expected: String) throws {
        #expect(try outcome(expression) == expected, "\(expression)")
    }

    @Test(arguments: [
        ("TEXT.length == 7", "true"), ("TEXT.contains('llo')", "true"), ("TEXT.contains('LLO')", "false"),
        ("TEXT.contains('')", "true"),
        ("TEXT.contains('é')", "true"), ("TEXT.contains('e')", "false"), ("TEXT.beginsWith('H')", "true"),
        ("TEXT.beginsWith('h')", "false"),
        ("TEXT.beginsWith('')", "true"), ("TEXT.beginsWith(TEXT)", "true"), ("TEXT.beginsWith(TEXT + 'x')", "false"),
        ("TEXT.endsWith('😀')", "true"), ("TEXT.endsWith('')", "true"), ("TEXT.endsWith('o')", "false"),
        ("TEXT.endsWith('x' + TEXT)", "false"),
        ("TEXT.replace('l', 'L') == 'HéLLo😀'", "true"), ("TEXT.replace('ll', '') == 'Héo😀'", "true"),
        ("TEXT.replace('x', 'y') == TEXT", "true"), ("'aaa'.replace('aa', 'b') == 'ba'", "true"),
        ("'ab'.replace('', '-') == '-a-b-'", "true"),
        ("'é😀'.replace('', '.') == '.é.😀.'", "true"), ("''.replace('', 'x') == 'x'", "true"),
        ("''.replace('a', 'x') == ''", "true"),
        ("TEXT.toLowerCase() == 'héllo😀'", "true"), ("TEXT.toUpperCase() == 'HÉLLO😀'", "true"),
        ("'ß'.toUpperCase() == 'SS'", "true"),
        ("TEXT.matches(/^H.*😀$/)", "true"), ("TEXT.matches(/h/)", "false"), ("TEXT.matches(/h/i)", "true"),
        ("TEXT.matches(/É/i)", "true"),
        ("TEXT.toLowerCase().replace('é', 'e').contains('hello')", "true"), ("(TEXT + 1).length == 8", "true"),
        ("EMPTY.length == 0", "true"), ("EMPTY.matches(/^$/)", "true"), ("EMPTY.contains('')", "true"),
        ("EMPTY.contains('a')", "false"),
    ]) func strings(expression: String, expected: String) throws {
        let whole = expression.replacing("TEXT", with: "data.child('s').val()")
            .replacing("EMPTY", with: "data.child('e').val()")
        #expect(try outcome(whole) == expected, "\(whole)")
    }

    /// A value that is not a string has no string methods, and no length.
    @Test(arguments: ["t", "n", "o", "nothing"]) func noStrings(name: String) throws {
        let value = "data.child('\(name)').val()"
        for expression in [
            "\(value).length == 1", "\(value).contains('a')", "\(value).beginsWith('a')", "\(value).endsWith('a')",
            "\(value).replace('a', 'b') == 'a'", "\(value).toLowerCase() == 'a'", "\(value).toUpperCase() == 'a'",
            "\(value).matches(/a/)", "'a'.contains(\(value))", "'a'.beginsWith(\(value))", "'a'.endsWith(\(value))",
            "'a'.replace(\(value), 'b') == 'a'", "'a'.replace('a', \(value)) == 'a'",
        ] {
            #expect(try outcome(expression) == "error", "\(expression)")
        }
    }

    @Test(arguments: [
        ("auth == null", "null", true), ("auth != null", #"{"uid":"u"}"#, true),
        ("auth.uid == 'u'", #"{"uid":"u"}"#, true),
        ("auth.uid == null", "null", true), ("auth.a.b.c == null", #"{"uid":"u"}"#, true),
        ("auth.a.b == 2", #"{"a":{"b":2}}"#, true),
        ("auth['a'].b == 2", #"{"a":{"b":2}}"#, true), ("auth.uid.length == 1", #"{"uid":"u"}"#, false),
        ("auth[auth.k] == 7", #"{"k":"x","x":7}"#, true), ("auth[true] == 1", #"{"true":1}"#, true),
        ("auth[1 + 1] == 'two'", #"{"2":"two"}"#, true), ("auth[null] == null", #"{"null":1}"#, true),
        ("auth.uid.contains('u')", #"{"uid":"u"}"#, true), ("auth.n.contains('u')", #"{"n":5}"#, false),
        ("auth.uid[0] == null", #"{"uid":"u"}"#, true), ("auth == auth", #"{"uid":"u"}"#, false),
    ]) func callers(expression: String, auth: String, expected: Bool) throws {
        #expect(try evaluates(expression, data: Self.data, auth: auth) == expected, "\(expression)")
    }

    @Test func time() throws {
        #expect(try evaluates("now == 1700000000000 && now - 1 < now && (now + '').length == 13"))
    }
}
