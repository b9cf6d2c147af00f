import Testing
import Tree

struct JSONWriterTests {
    /// Checks which nodes are written as arrays (reference: rtdb-protocol 6.4).
    @Test(arguments: [
        (#"{"0":"a","1":"b","2":"c"}"#, #"["a","b","c"]"#),
        (#"{"1":"x"}"#, #"[null,"x"]"#),
        (#"{"2":"x"}"#, #"{"2":"x"}"#),
        (#"{"0":"x"}"#, #"["x"]"#),
        (#"{"0":1,"1":1,"2":1,"5":1}"#, "[1,1,1,null,null,1]"),
        (#"{"0":1,"1":1,"2":1,"8":1}"#, #"{"0":1,"1":1,"2":1,"8":1}"#),
        (#"{"0":1,"1":1,"2":1,"7":1}"#, "[1,1,1,null,null,null,null,1]"),
        (#"{"01":1,"2":1}"#, #"{"01":1,"2":1}"#),
        (#"{"0":1,"00":1}"#, #"{"0":1,"00":1}"#),
        (#"{"0":1,"-1":1}"#, #"{"-1":1,"0":1}"#),
        (#"{"0":1,"-0":1}"#, #"{"0":1,"-0":1}"#),
        (#"{"0":1,"a":1}"#, #"{"0":1,"a":1}"#),
        (#"{"0":1,"2147483648":1}"#, #"{"0":1,"2147483648":1}"#),
        (#"{"2":1,"3":1}"#, "[null,null,1,1]"),
        (#"{"a":{"0":{"0":1}}}"#, #"{"a":[[1]]}"#),
        (#"{"0":{"x":1},"1":{"1":2}}"#, #"[{"x":1},[null,2]]"#),
    ])
    func `plain form coerces arrays`(text: String, plain: String) throws {
        let value = try node(text)
        #expect(json(value, .plain) == plain)
        #expect(try node(json(value, .plain)) == value)
        #expect(try node(json(value, .export)) == value)
        #expect(!json(value, .export).contains("["))
    }

    @Test func `a query's result is an object`() throws {
        for (text, written) in [
            (#"{"0":"a","1":"b"}"#, #"{"0":"a","1":"b"}"#), (#"{"1":{"0":1}}"#, #"{"1":[1]}"#),
            (#"{"a":1}"#, #"{"a":1}"#),
            ("null", "{}"), ("5", "{}"),
        ] {
            let result = JSONWriter.encodeObject(try node(text), form: .plain)
            #expect(String(decoding: result, as: UTF8.self) == written)
        }
        let pretty = JSONWriter.encodeObject(try node(#"{"0":1}"#), form: .plain, pretty: true)
        #expect(String(decoding: pretty, as: UTF8.self) == "{\n  \"0\" : 1\n}")
    }

    @Test func `plain form drops priorities`() throws {
        let value = try node(#"{"a":{".value":1,".priority":2},"b":{"c":true,".priority":"x"},".priority":3}"#)
        #expect(json(value, .plain) == #"{"a":1,"b":{"c":true}}"#)
        #expect(
            json(value, .export) == #"{"a":{".value":1,".priority":2},"b":{"c":true,".priority":"x"},".priority":3}"#)
    }

    @Test func `strings are escaped where they must be`() throws {
        #expect(json(.string("a\"b\\c/d")) == #""a\"b\\c/d""#)
        #expect(json(.string("\n\r\t\u{8}\u{C}\0\u{1F}\u{7F}")) == #""\n\r\t\u0008\u000c\u0000\u001f\u007f""#)
        #expect(json(.string("é😀\u{2028}\u{FFFF}")) == "\"é😀\u{2028}\u{FFFF}\"")
        #expect(json(.string("")) == #""""#)
        for scalar in (0..<0x3000).compactMap(UnicodeScalar.init) {
            let text = String(scalar) + "x" + String(scalar)
            #expect(try node(json(.string(text))) == .string(text))
        }
        // Escapes at every offset of a text long enough to be scanned in blocks.
        for offset in 0..<40 {
            let text = String(repeating: "é", count: offset) + "\"" + String(repeating: "y", count: 40 - offset)
            #expect(try node(json(.string(text))) == .string(text))
        }
    }

    @Test func `pretty text has two spaces a level and spaces about colons`() throws {
        let value = try node(#"{"a":[1,2],"b":{"c":"x"}}"#)
        let pretty = String(decoding: JSONWriter.encode(value, form: .plain, pretty: true), as: UTF8.self)
        #expect(pretty == "{\n  \"a\" : [\n    1,\n    2\n  ],\n  \"b\" : {\n    \"c\" : \"x\"\n  }\n}")
        #expect(try node(pretty) == value)
    }

    @Test func `a shallow read has true for children`() throws {
        func shallow(_ text: String) throws -> String {
            var writer = JSONWriter(form: .plain)
            writer.writeShallow(try node(text))
            return String(decoding: writer.bytes, as: UTF8.self)
        }
        #expect(try shallow(#"{"a":{"b":1},"c":2}"#) == #"{"a":true,"c":true}"#)
        #expect(try shallow(#"["x","y"]"#) == #"{"0":true,"1":true}"#)
        #expect(try shallow(#"{".value":5,".priority":1}"#) == "5")
        #expect(try shallow("null") == "null")
    }

    @Test func `a caller may write an object of its own`() {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("a\"", isFirst: true)
        writer.writeInteger(.min)
        writer.writeKey("b", isFirst: false)
        writer.raw("null")
        writer.endObject()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #"{"a\"":-9223372036854775808,"b":null}"#)
    }

    @Test(arguments: [0, 9, 10, 99, 100, 12_345, -1, -10, .max, .min, 1_000_000_000, 999_999_999_999] as [Int64])
    func `integers`(value: Int64) {
        #expect(json(.int(value)) == String(value))
    }
}
