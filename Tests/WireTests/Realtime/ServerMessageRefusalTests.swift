import Testing
import Tree
import Wire

/// Checks that an invalid server message is refused with a reason, and that no part of it is used.
@Suite struct ServerMessageRefusalTests {
    private func reason(_ text: String) -> String? {
        do throws(MessageError) {
            _ = try ServerMessageParser.parse(Array(text.utf8))
            return nil
        } catch {
            return error.reason
        }
    }

    @Test(arguments: [
        "", "0", "null", "[]", "{}", "{\"t\":\"c\"}", "{\"d\":{}}", "{\"t\":\"c\",\"d\":[]}", "{\"t\":5,\"d\":{}}",
        "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{}}", "{\"t\":\"d\",\"d\":{}} x",
    ]) func noEnvelope(text: String) { #expect(reason(text) == "not a protocol message") }

    @Test(arguments: [
        ("{\"t\":\"x\",\"d\":{}}", "a message of an unknown layer"),
        ("{\"t\":\"d\",\"d\":{}}", "a data message that is neither an answer nor a push"),
        ("{\"t\":\"d\",\"d\":{\"error\":\"x\"}}", "a data message that is neither an answer nor a push"),
        ("{\"t\":\"c\",\"d\":{\"d\":1}}", "a control message without a type"),
        ("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":5}}", "a greeting without an object"),
        ("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"h\":\"x\",\"s\":\"y\"}}}", "a greeting without a timestamp"),
        (
            "{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1.5,\"h\":\"x\",\"s\":\"y\"}}}",
            "a greeting without a timestamp"
        ),
        ("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1,\"s\":\"y\"}}}", "a greeting without its text h"),
        ("{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1,\"h\":\"y\"}}}", "a greeting without its text s"),
        ("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":null}}", "a reset without its text d"),
        ("{\"t\":\"d\",\"d\":{\"r\":1}}", "an answer without a number or a status"),
        ("{\"t\":\"d\",\"d\":{\"r\":\"1\",\"b\":{\"s\":\"ok\"}}}", "an answer without a number or a status"),
        ("{\"t\":\"d\",\"d\":{\"r\":1,\"b\":{\"s\":7}}}", "an answer without a number or a status"),
        ("{\"t\":\"d\",\"d\":{\"r\":1,\"b\":{\"s\":\"ok\",\"d\":tru}}}", "an answer whose detail is not JSON"),
        ("{\"t\":\"d\",\"d\":{\"a\":5,\"b\":{}}}", "a push without an action"),
        ("{\"t\":\"d\",\"d\":{\"a\":\"d\"}}", "a push without a body"),
        ("{\"t\":\"d\",\"d\":{\"a\":\"ac\",\"b\":{}}}", "a revocation without its text s"),
    ]) func wrongParts(text: String, expected: String) { #expect(reason(text) == expected) }

    @Test(arguments: [
        ("{\"d\":1}", "Invalid path: p must be a string"), ("{\"p\":5,\"d\":1}", "Invalid path: p must be a string"),
        ("{\"p\":\"a.b\",\"d\":1}", "Invalid path: a key contains \".\""),
        ("{\"p\":\".priority/a\",\"d\":1}", "Invalid path: a key contains \".\""),
        ("{\"p\":\"a\"}", "Invalid data: d is missing"),
        ("{\"p\":\"a\",\"d\":1,\"t\":\"1\"}", "Invalid tag: t must be a whole number"),
        ("{\"p\":\"a\",\"d\":1,\"t\":1.5}", "Invalid tag: t must be a whole number"),
        ("{\"p\":\"a\",\"d\":{\".sv\":\"timestamp\"}}", "Invalid data: a server value is not resolved"),
        ("{\"p\":\"a\",\"d\":{\"b\":{\".sv\":{\"increment\":1}}}}", "Invalid data: a server value is not resolved"),
    ]) func wrongData(body: String, expected: String) {
        #expect(reason("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":\(body)}}") == expected)
    }

    @Test(arguments: [
        ("5", "Invalid data: expected an object"), ("null", "Invalid data: d must be an object"),
        ("[1]", "Invalid data: expected an object"),
        ("{\"a\":1,\"a/b\":2}", "Invalid data: /x/a is an ancestor of /x/a/b in the same update"),
        ("{\"a\":1,\"a\":2}", "Invalid data: /x/a is an ancestor of /x/a in the same update"),
        ("{\"a\":{\".sv\":\"timestamp\"}}", "Invalid data: a server value is not resolved"),
        ("{\"\":1}", "Invalid data: the key is empty"),
    ]) func wrongMerges(data: String, expected: String) {
        #expect(reason("{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{\"p\":\"x\",\"d\":\(data)}}}") == expected)
    }

    @Test(arguments: [
        ("5", "Invalid ranges: d must be an array"), ("[5]", "Invalid ranges: a range must be an object"),
        ("[{}]", "Invalid ranges: m is missing"), ("[{\"s\":5,\"m\":1}]", "Invalid ranges: s and e must be paths"),
        ("[{\"e\":\"a.b\",\"m\":1}]", "Invalid path: a key contains \".\""),
        ("[{\"m\":{\"a.b\":1}}]", "Invalid ranges: a key contains \".\""),
        ("[{\"m\":{\"\":1}}]", "Invalid ranges: a key is empty"),
        ("[{\"m\":{\"a\":1,\"a\":2}}]", "Invalid ranges: a leaf is named twice"),
        ("[{\"m\":{\"a\":1,\"a\":{\"b\":2}}}]", "Invalid ranges: a leaf is named twice"),
        ("[{\"m\":{\".priority\":1,\".priority\":2}}]", "Invalid ranges: a leaf is named twice"),
        ("[{\"m\":{\".priority\":true}}]", "Invalid ranges: a priority must be a number or a string"),
        ("[{\"m\":{\".priority\":{}}}]", "Invalid ranges: m is not the leaves of a range"),
        ("[{\"m\":{\"a\":{\".sv\":\"timestamp\"}}}]", "Invalid ranges: a key contains \".\""),
        ("[{\"m\":{\"a\":{\".value\":{\".sv\":\"timestamp\"}}}}]", "Invalid ranges: m is not the leaves of a range"),
    ]) func wrongRanges(data: String, expected: String) {
        #expect(reason("{\"t\":\"d\",\"d\":{\"a\":\"rm\",\"b\":{\"p\":\"x\",\"d\":\(data)}}}") == expected)
    }

    @Test func wrongQueries() {
        for queries in ["5", "{}", "[{\"l\":}]", "[1 2]"] {
            #expect(
                reason("{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":\"x\",\"q\":\(queries)}}}")
                    == "Invalid queries: q must be an array", "\(queries)")
        }
    }

    /// The depth limit applies to a path plus its data, in each kind of push.
    @Test(arguments: [0, 1, 16, 31, 32]) func depths(of depth: Int) {
        let path = String(repeating: "a/", count: depth)
        func nested(_ levels: Int) -> String {
            String(repeating: "{\"a\":", count: levels) + "1" + String(repeating: "}", count: levels)
        }
        for (levels, isAllowed) in [(32 - depth, true), (33 - depth, false)] {
            let put = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"\(path)\",\"d\":\(nested(levels))}}}"
            #expect((reason(put) == nil) == isAllowed, "put: \(reason(put) ?? "")")
            let ranges =
                "{\"t\":\"d\",\"d\":{\"a\":\"rm\",\"b\":{\"p\":\"\(path)\",\"d\":[{\"m\":\(nested(levels))}]}}}"
            #expect((reason(ranges) == nil) == isAllowed, "ranges: \(reason(ranges) ?? "")")
            guard levels > 0 else { continue }
            let merge = "{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{\"p\":\"\(path)\",\"d\":\(nested(levels))}}}"
            #expect((reason(merge) == nil) == isAllowed, "merge: \(reason(merge) ?? "")")
        }
    }

    /// Nesting costs no stack, in any part of a message.
    @Test(arguments: ["{\"a\":", "["]) func deepNesting(open: String) {
        let deep = String(repeating: open, count: 200_000)
        for text in [
            deep, "{\"t\":\"d\",\"d\":\(deep)", "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"\",\"d\":\(deep)}}}",
            "{\"t\":\"d\",\"d\":{\"r\":1,\"b\":{\"s\":\"ok\",\"d\":\(deep)}}}",
        ] {
            #expect(reason(text) != nil)
        }
    }
}
