import Tree

extension FuzzTarget {
    /// Bodies of writes: any JSON value.
    static let json = FuzzTarget(
        name: "json", corpus: Corpora.json, tokens: Corpora.tokens
    ) { input, summary in
        let parsed: JSONParser.Parsed
        do throws(JSONError) {
            parsed = try JSONParser.parse(input)
        } catch {
            return NodeClaims.error(error, in: input, &summary)
        }
        let node = parsed.node
        if let wrong = NodeClaims.value(node, &summary) { return wrong }
        let borrowed = input.withUnsafeBytes { try? JSONParser.parse($0) }
        guard borrowed == node else { return "borrowed bytes are read as another value" }
        // Surrounding whitespace must not change the value.
        guard (try? JSONParser.parse([0x0A, 0x20] + input + [0x0D, 0x09]))?.node == node else {
            return "spaces change the value"
        }
        summary.note(parsed.hasServerValue ? 1 : 0)
        let base = node.replacing(Path([Key("a"), Key("b")]), with: .int(1))
        let resolved = node.resolved(existing: base, timestamp: 1_700_000_000_000)
        guard parsed.hasServerValue || resolved == node else {
            return "resolving changed a value without server values"
        }
        let text = JSONWriter.encode(resolved, form: .export)
        guard let final = try? JSONParser.parse(text), !final.hasServerValue, final.node == resolved else {
            return "a resolved value does not write and read back"
        }
        return NodeClaims.stored(resolved)
    }.measuring { _ = try? JSONParser.parse($0) }
}

/// Inputs and tokens that several parsers of JSON share.
enum Corpora {
    static let json = [
        "null", "true", "0", "-0.0", "1.5e-7", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
        "1e308",
        #""text""#, #""\u00e9\ud83d\ude00\n\\\"\/""#, "\"é😀\u{7F}\"", "[]", "{}", "[1,null,\"x\",[true]]", "{\"a\":1}",
        #"{"b":{"c":[1,2,{"d":null}]},"a":{},"10":1,"9":2,"-1":3,"007":4,"-0":5,"00":6}"#,
        #"{".value":1,".priority":"p"}"#, #"{"a":{".value":true},"b":1,".priority":1.5}"#, #"{".sv":"timestamp"}"#,
        #"{"n":{".sv":{"increment":-2.5}},"t":{".value":{".sv":"timestamp"},".priority":{".sv":{"increment":1}}}}"#,
        #"{"a":1,"a":null,"b":2,"b":3}"#, #"{"😀":1,"～":2,"é":3,"é":4}"#,
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}}}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "\r\n\t [ 1 ,\n 2 ] \n",
    ]

    static let tokens = [
        "\"", "\\", "{", "}", "[", "]", ":", ",", "null", "true", "false", "0", "-", "1e", "e-400", "e400", ".5", "00",
        "9007199254740993", "18446744073709551616", "\"a\":", "\"b\":1,", "\".value\":", "\".priority\":",
        "{\".sv\":\"timestamp\"}", "{\".sv\":{\"increment\":1}}", "\\u", "\\u0000", "\\ud83d", "\\ude00", "\\u002e",
        "{\"a\":",
        "\"0\":", "\"10\":2,", "\"-0\":", "\"00\":", "é", "e\u{301}", "😀", "～", "/", "a/b", ".priority", "\n", " ",
        String(repeating: "k", count: 200), String(repeating: "[", count: 40),
    ]
}
