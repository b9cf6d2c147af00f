import Testing
import Tree

/// Checks messages that are examined part by part, without being parsed.
struct RawJSONPartsTests {
    private func raw(_ text: String) -> RawJSON { RawJSON(Array(text.utf8)) }
    private func text(_ raw: RawJSON) -> String { String(decoding: raw.bytes, as: UTF8.self) }

    private func members(_ text: String) -> [String]? {
        raw(text).members?.map { "\($0.key)=\(self.text($0.value))" }
    }

    @Test(
        arguments: [
            ("{}", []), (" { } ", []), (#"{"a":1}"#, ["a=1"]), (#" { "a" : 1 , "b" : 2 } "#, ["a=1", "b=2"]),
            (#"{"a":{"b":[1,{}]},"c":"}]"}"#, [#"a={"b":[1,{}]}"#, #"c="}]""#]),
            (#"{"a":1,"a":2}"#, ["a=1", "a=2"]), (#"{"":null}"#, ["=null"]),
            (#"{"\u0061\n":true}"#, ["a\n=true"]), (#"{"é😀":-1.5e3}"#, ["é😀=-1.5e3"]),
            (#"{"a":"\"}"}"#, [#"a="\"}""#]), ("{\"a\":[\n1,\n2]\t}", ["a=[\n1,\n2]"]),
        ] as [(String, [String])])
    func `members in order`(text: String, expected: [String]) {
        #expect(members(text) == expected)
    }

    @Test(arguments: [
        "", " ", "null", "[]", "5", "\"{}\"", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}",
        "{a:1}", "{\"a\" 1}", "{\"a\":}", "{\"a\":1}x", "{\"a\":1}}", "{\"a\":[1}", "{\"a", "{\"a\\", "{\"\\ud800\":1}",
        "{\"a\":\"b}",
    ])
    func `what is no object has no members`(text: String) {
        #expect(members(text) == nil, "\(text)")
    }

    @Test(
        arguments: [
            ("[]", []), (" [ ] ", []), ("[1]", ["1"]), ("[ 1 , [2,3] , {\"a\":4} ]", ["1", "[2,3]", "{\"a\":4}"]),
            (#"["a,b","]"]"#, [#""a,b""#, #""]""#]), ("[null,true]", ["null", "true"]),
        ] as [(String, [String])])
    func `elements in order`(text: String, expected: [String]) {
        #expect(raw(text).elements?.map(self.text) == expected)
    }

    @Test(arguments: ["", "{}", "[", "[1", "[1,", "[1,]", "[,]", "[1 2]", "[1]]", "\"[]\"", "[[1]", "[\"a]"])
    func `what is no array has no elements`(text: String) {
        #expect(raw(text).elements == nil, "\(text)")
    }

    @Test func `scalars`() {
        #expect(raw("\"a\\u00e9\"").string == "aé")
        #expect(raw("\"\"").string == "")
        #expect(raw("5").string == nil && raw("null").string == nil && raw("\"a").string == nil)
        #expect(raw("\"a\"b\"").string == nil)
        #expect(raw("5").integer == 5 && raw("-9223372036854775808").integer == .min)
        #expect(raw("5.0").integer == 5 && raw("5.5").integer == nil && raw("\"5\"").integer == nil)
        #expect(raw("9223372036854775808").integer == nil && raw("").integer == nil)
        #expect(raw("true").bool == true && raw("false").bool == false && raw("1").bool == nil)
        #expect(raw("null").isNull && !raw("nul").isNull && !raw("\"null\"").isNull)
        #expect(raw("{}").isObject && !raw("[]").isObject)
        #expect(raw("1.5").scalar == .double(1.5) && raw("null").scalar == .null && raw("[]").scalar == nil)
        #expect(raw("{\".sv\":\"timestamp\"}").scalar == nil && raw("tru").scalar == nil)
    }

    /// Long texts take another code path than short ones, with the same result.
    @Test(arguments: [0, 1, 500, 1_021, 1_022, 1_023, 1_024, 5_000])
    func `strings of any length`(count: Int) {
        for piece in ["x", "é", "\u{7F}", "😀"] {
            let text = String(repeating: piece, count: count)
            var writer = JSONWriter(form: .plain)
            writer.writeString(text)
            #expect(RawJSON(writer.bytes).string == text)
        }
        #expect(raw("\"" + String(repeating: "x", count: count) + "\n\"").string == nil)
    }

    /// Taking a value apart and rebuilding it gives the same value.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func `parts of any value`(seed: UInt64) throws {
        func parsed(_ raw: RawJSON) throws -> Node {
            if let scalar = raw.scalar { return scalar }
            let members = try #require(raw.members)
            if members.contains(where: { $0.key.hasPrefix(".") }) { return try JSONParser.parse(raw.text).node }
            return Node(children: try members.map { (Key($0.key), try parsed($0.value)) })
        }
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 4)
        for isPretty in [false, true] {
            let text = JSONWriter.encode(tree, form: .export, pretty: isPretty)
            #expect(try parsed(RawJSON(text)) == tree, "seed \(seed)")
            #expect(RawJSON(text).isJSON)
        }
    }
}
