import Testing
import Tree

struct ChangeCodecTests {
    @Test func `changes are one object, absolute path to value, in order`() throws {
        let changes = [
            Change(path: path("b/c"), value: try node(#"{"x":{".value":1,".priority":"p"}}"#)),
            Change(path: path("a"), value: .null),
            Change(path: path("a/.priority"), value: .double(1.5)),
            Change(path: .root, value: .string("é\0")),
        ]
        let text = ChangeCodec.encode(changes)
        #expect(
            String(decoding: text, as: UTF8.self)
                == #"{"/b/c":{"x":{".value":1,".priority":"p"}},"/a":null,"/a/.priority":1.5,"/":"é\u0000"}"#)
        #expect(try ChangeCodec.decode(text) == changes)
    }

    @Test func `keys are escaped as texts are`() throws {
        for keys in [[#"a"b\c"#], ["x", "\u{80}"], ["é", "😀\"", "plain"]] {
            let changes = [Change(path: Path(keys.map { Key($0) }), value: .string("\n\"long\" \(keys)"))]
            let text = ChangeCodec.encode(changes)
            #expect(try ChangeCodec.decode(text) == changes)
            var writer = JSONWriter(form: .export)
            writer.beginObject()
            writer.writeKey(changes[0].path.description, isFirst: true)
            writer.write(changes[0].value)
            writer.endObject()
            #expect(text == writer.bytes)
        }
    }

    @Test func `no changes are an empty object`() throws {
        #expect(String(decoding: ChangeCodec.encode([]), as: UTF8.self) == "{}")
        #expect(try ChangeCodec.decode(Array("{}".utf8)).isEmpty)
    }

    @Test func `the deepest change survives`() throws {
        let deep = Path(Array(repeating: Key("k"), count: 32))
        for change in [
            Change(path: deep, value: Node.int(1).withPriority(.int(2))),
            Change(path: deep.appending(.priority), value: .int(3)),
            Change(path: deep.prefix(31), value: try node(#"{"k":1}"#)),
        ] {
            #expect(try ChangeCodec.decode(ChangeCodec.encode([change])) == [change])
        }
    }

    @Test(arguments: ["", "null", "[]", "1", #"{"/a":1"#, #"{"/a/.b":1}"#, #"{"/a":{"":1}}"#, #"{"/a":1} x"#])
    func `a damaged record is an error`(text: String) {
        #expect(throws: JSONError.self) { try ChangeCodec.decode(Array(text.utf8)) }
    }
}
