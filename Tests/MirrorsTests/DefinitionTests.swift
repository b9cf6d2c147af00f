import JSONText
import Mirrors
import Testing
import Tree

@Suite struct DefinitionTests {
    private func read(_ text: String) throws -> [MirrorDefinition] {
        try MirrorDefinition.read(Array(text.utf8), source: "f.json")
    }

    private func problems(_ text: String) -> [String] {
        do {
            _ = try read(text)
            return []
        } catch let error as DefinitionError {
            return error.description.split(separator: "\n").map(String.init)
        } catch {
            return ["\(error)"]
        }
    }

    @Test func whatIsWrittenOutIsReadBackTheSame() throws {
        let definition = try read(
            #"""
            {"name": "m", "namespace": "n", "path": "/rooms/{room}/messages/{message}", "table": "a b.t\"t", "comment": "c'",
             "keys": {"room": "bigint", "message": {"type": "uuid", "comment": "k"}},
             "columns": {"x": "text", "y": {"type": "bigint", "path": "a/b", "default": 3, "not null": "default"},
                         "whole": {"type": "jsonb", "path": "."}, "p": {"type": "text", "path": ".priority"}},
             "rest": "rest", "indexes": ["x", ["x", "y"], {"columns": ["whole"], "using": "gin"}], "keep errors": 0}
            """#)[0]
        #expect(try MirrorDefinition.read(definition.json, source: "") == [definition])
        #expect(try MirrorDefinition.read(definition.encoded(pretty: true), source: "") == [definition])
        #expect(definition.indexes.map(\.isGIN) == [false, false, true])
    }

    @Test func aFileMayHoldSeveral() throws {
        let one = #"{"name": "a", "path": "/a/{k}"}"#
        #expect(try read("[\(one), \(one)]").count == 2)
        #expect(try read("{\"mirrors\": [\(one)]}").count == 1)
        #expect(try read(one)[0].tableName == "mirror.a")
    }

    @Test(arguments: [
        (#"{"name": "a"}"#, "f.json:1:1: path: is missing"),
        (#"{"path": "/a/{k}"}"#, "f.json:1:1: name: is missing"),
        (#"{"name": "a", "path": "a/{k}"}"#, "begins with /"),
        (#"{"name": "a", "path": "/a/b"}"#, "captures no key"),
        (#"{"name": "a", "path": "/a/x{k}"}"#, "captures nothing"),
        (#"{"name": "a", "path": "/{k}/{k}"}"#, "{k} comes twice"),
        (#"{"name": "a", "path": "/{k}", "columns": {"k": "text"}}"#, "two columns with this name"),
        (#"{"name": "a", "path": "/{k}", "columns": {"_x": "text"}}"#, "reserved for Pathmirror"),
        (#"{"name": "a", "path": "/{k}", "columns": {"x": {"type": "int"}}}"#, "there is no type \"int\""),
        (
            #"{"name": "a", "path": "/{k}", "columns": {"x": {"type": "bigint", "default": "y"}}}"#,
            "the default doesn't fit"
        ),
        (
            #"{"name": "a", "path": "/{k}", "columns": {"x": {"type": "text", "not null": "default"}}}"#,
            "there is no default"
        ),
        (
            #"{"name": "a", "path": "/{k}", "columns": {"x": {"type": "text", "path": "a/b.c"}}}"#,
            "the path's part \"b.c\""
        ),
        (#"{"name": "a", "path": "/{k}", "indexes": ["y"]}"#, "there is no column \"y\""),
        (#"{"name": "a", "path": "/{k}", "table": "pathmirror.x"}"#, "is reserved"),
        (#"{"name": "a", "path": "/{k}", "keep errors": 100001}"#, "keep errors: this should be a whole number"),
        (#"{"name": "a", "path": "/{k}", "keep errors": "all"}"#, "keep errors: this should be a whole number"),
        (#"{"name": "a", "path": "/{k}", "name": "b"}"#, "f.json:1:31: \"name\" comes twice"),
        ("{", "f.json:1:2: expected a key"),
        (#"{"name": "\ud83d\u0041"}"#, "f.json:1:23: half of a surrogate pair"),
        (#"{"name": "\ud83d\ud83d"}"#, "half of a surrogate pair"),
        (#"{"name": "\ud83d"}"#, "half of a surrogate pair"),
        (#"{"name": "\u+041"}"#, "expected four hexadecimal digits"),
        ("[]", "there is no mirror"),
    ])
    func aMistakeIsNamedWithItsPosition(text: String, message: String) {
        let found = problems(text)
        #expect(found.contains { $0.contains(message) }, "\(found)")
    }

    /// Checks that each value has a position, and that finding it does not require another pass over the text.
    @Test func positionsInALongFile() throws {
        let count = 40_000
        let columns = (0..<count).map { "  \"c\($0)\": \"text\"" }.joined(separator: ",\n")
        let text = "{\"name\": \"a\", \"path\": \"/{k}\", \"columns\": {\n\(columns),\n \"x\": 1}}"
        let clock = ContinuousClock()
        let start = clock.now
        #expect(problems(text).contains { $0.hasPrefix("f.json:\(count + 2):7: columns.x: ") })
        // A pass from the beginning for each value would take minutes.
        #expect(clock.now - start < .seconds(30))
    }

    @Test func aTargetsPasswordIsInNoMessageAndNoStoredDefinition() throws {
        let definition = try read(
            #"{"name": "a", "path": "/{k}", "target": "postgresql://u:secret-word@h/d"}"#)[0]
        #expect(!String(decoding: definition.json, as: UTF8.self).contains("secret-word"))
        let bad = problems(#"{"name": "a", "path": "/{k}", "target": "postgresql://u:secret@word@h:x/d"}"#)
        #expect(!bad.isEmpty && !bad.joined().contains("secret"))
    }
}
