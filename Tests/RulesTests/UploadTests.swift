import Rules
import Testing
import Tree

/// Checks the answers to uploads of rules.
@Suite struct UploadTests {
    @Test func everyBadExpressionIsOneLineInOrder() {
        let text = """
            {
              "rules": {
                "b": { ".read": "foo == 1 && bar == 2" },
                ".read": "data.val()",
                "$x": { ".write": "auth", "c": { ".validate": "$y == 1" } }
              }
            }
            """
        #expect(
            uploadError(text) == """
                3:22: Unknown variable 'foo'.
                4:15: Expression must evaluate to a boolean.
                5:24: Expression must evaluate to a boolean.
                5:52: Unknown variable '$y'.

                """)
    }

    /// The database can't store a zero byte; a comment may contain any other character.
    @Test func aZeroByteIsRefusedWhereverItStands() {
        #expect(uploadError("{\"rules\":{/* \u{0} */}}") == "1:14: The rules have a character U+0000 here.\n")
        #expect(uploadError("{\"rules\":{/* \u{1} */}}") == nil)
    }

    @Test func positionsCountThroughEscapesAndWideCharacters() {
        #expect(uploadError(#"{"rules":{".read":"'\u0041\"' == 'é😀' && foo"}}"#) == "1:43: Unknown variable 'foo'.\n")
        #expect(uploadError("{\"rules\":{\".read\":\"true &&\r\n\t foo\"}}") == "2:3: Unknown variable 'foo'.\n")
    }

    @Test(arguments: [
        ("[]", "1:1: Expected '{'.\n"),
        ("\"a\"", "1:1: Expected '{'.\n"), ("7", "1:1: Expected '{'.\n"), ("null", "1:1: Expected '{'.\n"),
        ("{}", "1:1: Expected 'rules' property.\n"),
        ("{\"rules\": 1}", "1:11: Expected '{'.\n"),
        ("{\"rules\": {}} x", "1:15: Parse error.\n"),
        ("{\"rules\": {\"a\": {}, \"a\": {}}}", "1:21: Duplicate key 'a'.\n"),
        (
            "{\"rules\": {\".read\": null}}",
            "1:21: Invalid rule expression.  Expected 'true', 'false', or an expression string.\n"
        ),
        ("{\"rules\": {\".read\": \"\"}}", "1:22: The expression is empty.\n"),
        ("{\"rules\": {\"$a\": {\"$a\": {}}}}", "1:19: The variable '$a' is already bound by a node above.\n"),
        ("{\"rules\": {\".read\": \"\\q\"}}", "1:22: Invalid escape: '\\q'\n"),
        ("{\"rules\": {\".read\": \"true", "1:21: Parse error.\n"),
        ("{\"rules\": {/* }}", "1:12: Parse error.\n"),
        (
            "{\"rules\": {\"a\": 1, \"b\": {\".read\": null}}}",
            """
            1:17: Expected '{'.
            1:35: Invalid rule expression.  Expected 'true', 'false', or an expression string.

            """
        ),
        ("{\"rules\": {\"a\"}}", "1:15: Expected ':'.\n"),
        ("{\"rules\": {\"a\": {} \"b\": {}}}", "1:20: Expected ',' or '}'.\n"),
        ("{\"rules\": {\"\": {}}}", "1:12: String can't contain \".\", \"#\", \"$\", \"/\", \"[\", or \"]\"\n"),
    ])
    func documents(text: String, error: String) { #expect(uploadError(text) == error) }

    /// If the text is not JSON, the error says so with the position.
    @Test(arguments: [
        ("", "1:1"), ("  \n", "2:1"), ("invalid json %{!@[", "1:1"), ("// a comment\n\nread { auth != null }", "3:1"),
        ("nulls", "1:1"), ("{\"rules\": truth}", "1:11"), ("{\"rules\": {\"a\": banana}}", "1:17"),
        ("{\"rules\": {\".read\": auth != null}}", "1:21"), ("{\"rules\": {\".read\": 'true'}}", "1:21"),
        ("{\"rules\": {\".read\": 01}}", "1:21"), ("{\"rules\": {\".indexOn\": [a]}}", "1:25"),
        ("{\"rules\": {\".indexOn\": name}}", "1:24"), ("{\"rules\": {", "1:12"), ("{\"rules\"", "1:9"),
        ("{\"rules\":", "1:10"), ("{\"rules\": {\"a\": {}", "1:19"), ("{\"rules\": {\".indexOn\": [\"a\"", "1:28"),
        ("{\"rules\": {}", "1:13"),
    ])
    func textsThatAreNotJSON(text: String, position: String) {
        #expect(uploadError(text) == "\(position): Parse error.\n")
    }

    @Test(arguments: [
        "{\"rules\":{}}", "// c\n{/* c */\"rules\"/**/:{},}", "{\"rules\":{\".indexOn\":[]}}", "\u{FEFF}{\"rules\":{}}",
        "{\"rules\":{\".read\":true,\".write\":\"false\",\".validate\":\"true\"}}",
    ])
    func accepted(text: String) { #expect(uploadError(text) == nil) }

    /// The result is plain JSON, although rule files may contain extensions of JSON.
    @Test(arguments: [
        (
            "{ // c\n\"rules\": { /* a */ \"p\" : { \".read\" : \"true\" , }, }, }",
            "{ \n\"rules\": {  \"p\" : { \".read\" : \"true\"  } } }"
        ),
        ("\u{FEFF}{\"rules\":{\".indexOn\":[\"a,]\",\n]}}", "{\"rules\":{\".indexOn\":[\"a,]\"\n]}}"),
        (
            "{\"rules\":{\".read\":\"true\n\t&& '\\\"//\u{1F}'\r!= ''\"}}",
            "{\"rules\":{\".read\":\"true\\n\\t&& '\\\"//\\u001f'\\r!= ''\"}}"
        ),
        ("{\"rules\":{},/*,*/}", "{\"rules\":{}}"),
    ]) func strictSource(text: String, strict: String) throws {
        let rules = try rules(text)
        #expect(String(decoding: rules.strictSource, as: UTF8.self) == strict)
        #expect(RawJSON(rules.strictSource).isJSON)
        #expect(try RuleSet(json: rules.strictSource).strictSource == rules.strictSource)
    }

    @Test func bytesThatAreNoTextAreRefused() {
        #expect(throws: RulesError.self) { try RuleSet(json: [0x7B, 0xFF, 0x7D]) }
    }

    @Test(arguments: [
        "1 +", "(true", "true)", "a ? b", "x = 1", "true; true", "function() {}", "'abc", "auth.uid.", "typeof auth",
        "++now == 1", "--now == 1", "+now == 1", "now & 1", "~now == 1", "a => b", "010 == 8", "1x == 1", "0x == 0",
        "1e == 1", "'\\u12' == ''", "'\\01' == ''", "'\\ud800' == ''", "auth[", "auth[]", "data.child(,)", "/* true",
        "auth.uid.matches(/a", "auth.uid.matches(//)", "new auth", "`a` == 'a'", "true ?? false", "auth?.uid == null",
    ])
    func badSyntax(expression: String) {
        let escaped = expression.replacing("\\", with: "\\\\")
        #expect(uploadError("{\"rules\":{\".read\":\"\(escaped)\"}}") != nil)
    }

    @Test func nestingIsBoundedButChainsAreNot() {
        func upload(_ expression: String) -> String? { uploadError("{\"rules\":{\".read\":\"\(expression)\"}}") }
        func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
        #expect(upload(repeated("(", 100) + "true" + repeated(")", 100)) == nil)
        #expect(upload("true" + repeated(" && true", 30_000)) == nil)
        #expect(upload("'' " + repeated("+ 'a'", 30_000) + " == ''") == nil)
        for text in [
            repeated("(", 100_000), repeated("!", 100_000) + "true",
            "data" + repeated(".parent()", 20_000) + ".exists()",
            "1" + repeated("-1", 50_000) + "== 1", repeated("true ? true : ", 50_000) + "true",
            repeated("auth[", 50_000), "1" + repeated(" == 1", 50_000), repeated("data.child(", 10_000),
            // Each level nests to the left as deeply as allowed.
            repeated("(", 150) + "1" + repeated(repeated("*1", 150) + ")", 150) + " == 1",
        ] {
            #expect(upload(text)?.contains("nested too deeply") == true)
        }
        let deep = "{\"rules\":" + repeated("{\"a\":", 50_000)
        #expect(uploadError(deep)?.contains("nested too deeply") == true)
        #expect(uploadError("{\"rules\":{\".read\":" + repeated("[", 50_000))?.contains("nested too deeply") == true)
    }

    @Test func oddRegularExpressionsAreWarnedOf() throws {
        let text = "{\"rules\":{\".read\":\"auth.uid.matches(/(?:x)\\\\t/)\"}}"
        #expect(
            try warnings(text).map(\.description) == [
                "1:37: '(?' in a regular expression looks for the character '?'",
                "1:37: '\\t' in a regular expression looks for the character 't'",
            ])
    }

    private func warnings(_ text: String) throws -> [RulesError.Problem] {
        try RuleSet(json: Array(text.utf8), keepsWarnings: true).warnings
    }

    /// The memory for warnings does not depend on the document's size, and is zero if warnings are not requested.
    @Test func warningsAreBounded() throws {
        let long = "{\"rules\":{\".read\":\"auth.uid.matches(/a\(String(repeating: "+", count: 1_000_000))/)\"}}"
        #expect(try warnings(long).count == 1)
        #expect(try rules(long).warnings.isEmpty)
        let nodes = (0..<500).map { "\"n\($0)\":{\".read\":\"auth.uid.matches(/a+?/)\"}" }.joined(separator: ",")
        #expect(try warnings("{\"rules\":{\(nodes)}}").count == RuleSet.maxWarnings)
    }

    /// The whole cost of compiling and caching regular expressions counts: trimmed parts, wide classes, caches, and
    /// work for patterns that turn out to be invalid.
    @Test(arguments: [
        Patterns(count: 100, text: "(", repeated: "\\\\W", times: 3000, end: ")?", flags: "i"),
        Patterns(count: 800, text: "", repeated: "[\\\\W]", times: 3, end: ")", flags: "i"),
        Patterns(count: 100, text: "", repeated: "[Ѐ-ѿ]", times: 300, end: ")", flags: "i"),
        Patterns(count: 100, text: "[", repeated: "\\\\W", times: 3000, end: "]", flags: ""),
        Patterns(count: 3000, text: "a.{12}[cX]$", repeated: "", times: 0, end: "", flags: ""),
    ]) func regularExpressionsHaveACommonBudget(patterns: Patterns) throws {
        let pattern = patterns.text + String(repeating: patterns.repeated, count: patterns.times) + patterns.end
        let node = ":{\".read\":\"auth.uid.matches(/\(pattern)/\(patterns.flags))\"}"
        let nodes = (0..<patterns.count).map { "\"n\($0)\"" + node }
        let message = uploadError("{\"rules\":{\(nodes.joined(separator: ","))}}")
        #expect(message?.contains("the regular expressions of these rules are too large together") == true)
    }

    /// Separate expressions, such as filters, have a smaller budget.
    @Test func expressionsHaveABudget() throws {
        let pattern = try PathPattern("/a/{k}")
        #expect(throws: RulesError.self) {
            try RuleSet(.write, "newData.val().matches(/^.{1,33000}$/)", at: pattern)
        }
        #expect(throws: Never.self) { try RuleSet(.write, "newData.val().matches(/^.{1,1000}$/)", at: pattern) }
        #expect(try evaluates("data.val().matches(/^.{1,33000}$/)", data: "\"a\""))
    }

    struct Patterns: CustomTestStringConvertible {
        let count: Int
        let text: String
        let repeated: String
        let times: Int
        let end: String
        let flags: String
        var testDescription: String { text + repeated + end }
    }

    @Test func theSourceIsKept() throws {
        let text = "{ /* why */ \"rules\": {}, }"
        #expect(try rules(text).source == Array(text.utf8))
        #expect(try RuleSet(json: RuleSet.denyAll.source).source == RuleSet.denyAll.source)
        #expect(try RuleSet(json: RuleSet.allowAll.source).source == RuleSet.allowAll.source)
    }

    @Test func indexesAreFoundByPath() throws {
        let rules = try rules(
            "{\"rules\":{\"a\":{\"$x\":{\".indexOn\":[\"at\",\"by/name\"]},\"b\":{\".indexOn\":\".value\"}}}}")
        #expect(rules.indexes(at: "a/q") == [.child("at"), .child("by/name")])
        #expect(rules.isIndexed(.child("by/name"), at: "a/q"))
        #expect(!rules.isIndexed(.child("by"), at: "a/q"))
        #expect(rules.isIndexed(.value, at: "a/b"))
        #expect(!rules.isIndexed(.child("at"), at: "a/b"))
        #expect(!rules.isIndexed(.value, at: "a/q/r/s"))
        #expect(rules.isIndexed(.key, at: "z") && rules.isIndexed(.priority, at: "z"))
    }
}
