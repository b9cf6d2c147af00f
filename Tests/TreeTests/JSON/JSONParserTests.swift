import Testing
import Tree

struct JSONParserTests {
    @Test(arguments: [
        ("null", "null"), (" \n\t\r true ", "true"), ("false", "false"), (#""""#, #""""#), ("[]", "null"),
        ("{}", "null"),
        (#"{"a":{}}"#, "null"), (#"{"a":{"b":[]},"c":1}"#, #"{"c":1}"#), (#"{"a":null}"#, "null"),
        ("[null,null]", "null"),
        (#"["x",null,"y"]"#, #"{"0":"x","2":"y"}"#), (#"[[1],[2,3]]"#, #"{"0":{"0":1},"1":{"0":2,"1":3}}"#),
        (#"{ "b" : 1 , "a" : 2 }"#, #"{"a":2,"b":1}"#), (#"{"10":1,"9":2,"a":3}"#, #"{"9":2,"10":1,"a":3}"#),
        (#"{"a":1,"a":2}"#, #"{"a":2}"#), (#"{"a":1,"b":0,"a":null}"#, #"{"b":0}"#),
        (#"{"a":null,"a":1}"#, #"{"a":1}"#),
        (#"{"b":0,"a":1,"a":2,"a":null,"a":3}"#, #"{"a":3,"b":0}"#),
    ])
    func `data has one form`(text: String, expected: String) throws {
        #expect(try json(node(text)) == expected)
    }

    // MARK: .value and .priority

    @Test(arguments: [
        (#"{".value":1}"#, "1"),
        (#"{".value":1,".priority":null}"#, "1"),
        (#"{".priority":"p",".value":true}"#, #"{".value":true,".priority":"p"}"#),
        (#"{".value":"v",".priority":1.5}"#, #"{".value":"v",".priority":1.5}"#),
        (#"{"a":1,".priority":2}"#, #"{"a":1,".priority":2}"#),
        (#"{".priority":2,"a":1}"#, #"{"a":1,".priority":2}"#),
        (#"{".priority":2}"#, "null"),
        (#"{".priority":2,"a":null}"#, "null"),
        (#"{".value":null,".priority":2}"#, "null"),
        (#"{".value":null,"a":1}"#, #"{"a":1}"#),
        (#"{".value":{},"a":1}"#, #"{"a":1}"#),
        (#"{"a":{".value":1,".priority":1},"b":{".value":2}}"#, #"{"a":{".value":1,".priority":1},"b":2}"#),
        (#"{".value":1,".value":2}"#, "2"),
        (#"{".priority":1,".priority":null,".value":5}"#, "5"),
    ])
    func `special keys`(text: String, expected: String) throws {
        #expect(try json(node(text)) == expected)
    }

    @Test(arguments: [
        #"{".value":1,"a":1}"#, #"{"a":1,".value":1}"#, #"{".value":{"a":1}}"#, #"{".value":[1]}"#,
        #"{".value":{".value":1}}"#,
        #"{".value":{".value":1,".priority":2}}"#,
    ])
    func `a .value is a leaf and has no siblings`(text: String) {
        #expect(parseError(text)?.kind == .value)
    }

    @Test(arguments: ["true", "false", #"{"a":1}"#, "[1]", #"{".value":1,".priority":1}"#])
    func `a priority is a number or a string`(text: String) {
        #expect(parseError(#"{".value":1,".priority":\#(text)}"#)?.reason == "a priority must be a number or a string")
        #expect(parseError(#"{"a":1,".priority":\#(text)}"#)?.reason == "a priority must be a number or a string")
    }

    @Test(arguments: [
        (".foo", "the key contains \".\""), (".", "the key contains \".\""), ("a.b", "the key contains \".\""),
        ("a/b", "the key contains \"/\""), ("", "the key is empty"), ("a#", "the key contains \"#\""),
        ("$a", "the key contains \"$\""), ("[a", "the key contains \"[\""), ("a]", "the key contains \"]\""),
        ("\\u0000", "the key contains a control character"), ("a\\n", "the key contains a control character"),
        ("\\u007f", "the key contains a control character"), (".Priority", "the key contains \".\""),
    ])
    func `a forbidden key is named`(key: String, reason: String) {
        let error = parseError("{\"x\":1,\n  \"\(key)\":1}")
        #expect(error?.kind == .key)
        #expect(error?.reason == reason)
        #expect(error?.line == 2)
        #expect(error?.column == 3)
    }

    @Test func `a key's length is limited`() {
        #expect(parseError("{\"\(String(repeating: "k", count: 768))\":1}") == nil)
        #expect(parseError("{\"\(String(repeating: "k", count: 769))\":1}")?.kind == .key)
    }

    @Test func `a string's length is limited`() {
        let limit = 10_485_760
        #expect(parseError("\"" + String(repeating: "x", count: limit) + "\"") == nil)
        let error = parseError("\"" + String(repeating: "x", count: limit + 1) + "\"")
        #expect(error?.reason == "the string has more than 10485760 bytes")
        // Only bytes of the text count, not those of its escapes.
        #expect(parseError("\"\\n" + String(repeating: "x", count: limit - 1) + "\"") == nil)
        #expect(parseError("\"\\n" + String(repeating: "x", count: limit) + "\"")?.kind == .value)
    }

    // MARK: Depth

    private func nested(_ depth: Int, _ leaf: String = "1") -> String {
        String(repeating: "{\"k\":", count: depth) + leaf + String(repeating: "}", count: depth)
    }

    @Test func `thirty-two levels are fine, thirty-three are not`() throws {
        #expect(parseError(nested(32)) == nil)
        #expect(parseError(nested(33))?.reason == "the data would be more than 32 levels deep")
        #expect(parseError(String(repeating: "[", count: 32) + "1" + String(repeating: "]", count: 32)) == nil)
        #expect(parseError(String(repeating: "[", count: 33) + "1" + String(repeating: "]", count: 33))?.kind == .value)
        #expect(parseError(nested(32, #"{".value":1,".priority":2}"#)) == nil)
        #expect(parseError(nested(32, #"{".value":{".sv":"timestamp"},".priority":{".sv":{"increment":1}}}"#)) == nil)
        #expect(parseError(nested(32, #"{".sv":"timestamp"}"#)) == nil)
    }

    @Test func `a caller may allow less`() throws {
        #expect(try JSONParser.parse("1", maxDepth: 0) == .int(1))
        #expect(try JSONParser.parse(#"{".value":1,".priority":1}"#, maxDepth: 0).rowCount == 2)
        #expect(throws: JSONError.self) { try JSONParser.parse(#"{"a":1}"#, maxDepth: 0) }
        #expect(try JSONParser.parse(#"{"a":1}"#, maxDepth: 1).childCount == 1)
    }

    @Test(arguments: ["[", "{\"a\":", "[[{\"a\":", "{\".value\":", "{\".priority\":", "[{}, "])
    func `a million open brackets are refused at once`(text: String) {
        let error = parseError(String(repeating: text, count: 1_000_000))
        #expect(error?.line == 1)
        #expect((error?.column ?? .max) < 1000)
    }

    // MARK: Updates

    private func update(_ text: String) throws(JSONError) -> [(String, String)]? {
        try JSONParser.parseUpdate(Array(text.utf8))?.changes.map { ($0.path.description, json($0.node)) }
    }

    @Test func `an update's keys are paths`() throws {
        let changes = try update(#"{"b":1,"a/b/":{"c":2},"/x/y":null,"p/.priority":3, ".priority" : "top"}"#) ?? []
        #expect(changes.map(\.0) == ["/b", "/a/b", "/x/y", "/p/.priority", "/.priority"])
        #expect(changes.map(\.1) == ["1", #"{"c":2}"#, "null", "3", "\"top\""])
        #expect(try update("null") == nil)
        #expect(try update(" {} ")?.isEmpty == true)
    }

    @Test(arguments: [
        "1", "[]", "\"a\"", "true", "", "{", "nul", #"{"a":1"#, #"{"a"}"#, #"{"a":1,}"#, #"{} x"#, "null null",
        #"{"":1}"#, #"{"/":1}"#,
        #"{"a.b":1}"#, #"{"a/$b":1}"#, #"{".value":1}"#, #"{"a/.value":1}"#, #"{".sv":"timestamp"}"#,
        #"{".priority/a":1}"#,
        #"{"a/.priority":true}"#, #"{"a/.priority":{"b":1}}"#, #"{"a":{"b/c":1}}"#,
    ])
    func `a bad update is refused`(text: String) {
        #expect(throws: JSONError.self) { try update(text) }
    }

    @Test func `an update's paths count as levels`() throws {
        let deep = Array(repeating: "k", count: 31).joined(separator: "/")
        #expect(try update("{\"\(deep)/k\":1}")?.count == 1)
        #expect(try update("{\"\(deep)/k/.priority\":1}")?.count == 1)
        #expect(try update("{\"\(deep)\":{\"k\":1}}")?.count == 1)
        #expect(throws: JSONError.self) { try update("{\"\(deep)/k/k\":1}") }
        #expect(throws: JSONError.self) { try update("{\"\(deep)\":{\"k\":{\"k\":1}}}") }
        #expect(throws: JSONError.self) { try update("{\"\(deep)/k\":{\"k\":1}}") }
    }
}
