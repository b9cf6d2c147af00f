import Testing
import Tree

/// Checks `{".sv": …}` (reference: rtdb-protocol 5).
struct ServerValueTests {
    private func resolve(_ text: String, existing: String = "null", at time: Int64 = 1_700_000_000_000) throws -> String
    {
        json(try node(text).resolved(existing: try node(existing), timestamp: time))
    }

    @Test func `a timestamp is the operation's instant, everywhere the same`() throws {
        let resolved = try resolve(#"{"a":{".sv":"timestamp"},"b":{"c":{".value":{".sv":"timestamp"},".priority":1}}}"#)
        #expect(resolved == #"{"a":1700000000000,"b":{"c":{".value":1700000000000,".priority":1}}}"#)
    }

    @Test(arguments: [
        ("1", "null", "1"),
        ("1", "5", "6"),
        ("-3", "1", "-2"),
        ("1", "1.5", "2.5"),
        ("0.5", "2", "2.5"),
        ("1.5", "1.5", "3"),
        ("1", "\"text\"", "1"),
        ("1", "true", "1"),
        ("1", #"{"a":1}"#, "1"),
        ("2.5", "\"7\"", "2.5"),
        ("1", "9223372036854775806", "9223372036854775807"),
        ("1", "9223372036854775807", "9.223372036854776e+18"),
        ("-1", "-9223372036854775808", "-9.223372036854776e+18"),
        ("1.7976931348623157e308", "1.7976931348623157e308", "1.7976931348623157e+308"),
        ("-1.7976931348623157e308", "-1.7976931348623157e308", "-1.7976931348623157e+308"),
        ("4", #"{".value":3,".priority":9}"#, "7"),
    ])
    func `an increment adds to what is there`(delta: String, existing: String, expected: String) throws {
        #expect(try resolve(#"{".sv":{"increment":\#(delta)}}"#, existing: existing) == expected)
    }

    @Test func `the base is the value at the very same path`() throws {
        let resolved = try resolve(
            #"{"a":{".sv":{"increment":1}},"b":{"n":{".sv":{"increment":1}}},"c":{".sv":{"increment":1}}}"#,
            existing: #"{"a":10,"b":{"n":20,"m":30},"d":40}"#)
        #expect(resolved == #"{"a":11,"b":{"n":21},"c":1}"#)
    }

    @Test func `priorities count too`() throws {
        let increment = #"{".value":1,".priority":{".sv":{"increment":1.5}}}"#
        #expect(try resolve(increment, existing: #"{".value":7,".priority":1}"#) == #"{".value":1,".priority":2.5}"#)
        #expect(try resolve(increment, existing: #"{"x":7,".priority":1}"#) == #"{".value":1,".priority":2.5}"#)
        #expect(try resolve(increment) == #"{".value":1,".priority":1.5}"#)
        let branch = #"{"a":1,".priority":{".sv":"timestamp"}}"#
        #expect(try resolve(branch, at: 5) == #"{"a":1,".priority":5}"#)
    }

    @Test func `the parser reports whether there is anything to resolve`() throws {
        #expect(try JSONParser.parse(Array(#"{"a":{"b":{".sv":"timestamp"}}}"#.utf8)).hasServerValue)
        #expect(try JSONParser.parse(Array(#"{"a":1,".priority":{".sv":"timestamp"}}"#.utf8)).hasServerValue)
        #expect(try !JSONParser.parse(Array(#"{"a":{"b":1}}"#.utf8)).hasServerValue)
        #expect(try JSONParser.parseUpdate(Array(#"{"a/b":{".sv":"timestamp"}}"#.utf8))?.hasServerValue == true)
    }

    @Test(arguments: [
        #"{".sv":"now"}"#, #"{".sv":1}"#, #"{".sv":null}"#, #"{".sv":{}}"#, #"{".sv":{"increment":"1"}}"#,
        #"{".sv":{"increment":null}}"#, #"{".sv":{"decrement":1}}"#, #"{".sv":{"increment":1,"x":2}}"#,
        #"{".sv":["timestamp"]}"#,
        #"{".sv":"timestamp","a":1}"#, #"{"a":1,".sv":"timestamp"}"#, #"{".sv":"timestamp",".value":1}"#,
    ])
    func `anything else is refused`(text: String) throws {
        #expect(parseError(text) != nil)
    }

    @Test func `a server value writes back as it came`() throws {
        for text in [
            #"{".sv":"timestamp"}"#, #"{".sv":{"increment":1.5}}"#, #"{".value":{".sv":"timestamp"},".priority":1}"#,
            #"{".value":1,".priority":{".sv":{"increment":-1}}}"#,
        ] { #expect(try json(node(text)) == text) }
        // The SDKs leave the priority inside too.
        #expect(
            try json(node(#"{".value":{".sv":"timestamp",".priority":1},".priority":1}"#))
                == #"{".value":{".sv":"timestamp"},".priority":1}"#)
    }
}
