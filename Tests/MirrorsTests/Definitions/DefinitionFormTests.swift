import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of reading and writing definitions of all kinds.
@Suite struct DefinitionFormTests {
    @Test func whatIsLeftOutHasItsDefault() throws {
        let found = try definition(
            #"{"name": "posts", "path": "/a/{x}/b/{y}", "columns": {"title": "text", "n": {"type": "bigint"}}}"#)
        #expect(found.namespace == nil && found.target == nil && found.comment == nil && found.rest == nil)
        #expect(found.tableName == "mirror.posts" && found.schema == "mirror" && found.table == "posts")
        #expect(
            found.keys == [.init(name: "x", type: .text, comment: nil), .init(name: "y", type: .text, comment: nil)])
        #expect(found.columns.map(\.path) == [Path(splitting: "title"), Path(splitting: "n")])
        #expect(found.columns.allSatisfy { $0.defaultValue.isNull && $0.notNull == nil && $0.comment == nil })
        #expect(found.indexes.isEmpty)
        #expect(found.keptErrors == 10_000)
    }

    @Test(arguments: [
        ("\"t\"", "mirror", "t"), ("\"s.t\"", "s", "t"), ("\"S p.T\\\"q\"", "S p", "T\"q"), ("\"é.🎈\"", "é", "🎈"),
    ])
    func tables(text: String, schema: String, table: String) throws {
        let found = try definition("{\"name\": \"a\", \"path\": \"/{k}\", \"table\": \(text)}")
        #expect((found.schema, found.table) == (schema, table))
    }

    @Test(arguments: [
        (#""x""#, ["x"], false), (#"["x", "k"]"#, ["x", "k"], false), (#""tags""#, ["tags"], true),
        (#"["doc"]"#, ["doc"], true),
        (#"["rest"]"#, ["rest"], true), (#"{"columns": "tags", "using": "btree"}"#, ["tags"], false),
        (#"{"columns": ["doc", "tags"], "using": "gin"}"#, ["doc", "tags"], true), (#"["_seq"]"#, ["_seq"], false),
        (#"["_updated_at", "k"]"#, ["_updated_at", "k"], false),
    ])
    func indexes(text: String, columns: [String], isGIN: Bool) throws {
        let found = try definition(
            """
            {"name": "a", "path": "/{k}", "columns": {"x": "text", "tags": "text[]", "doc": "jsonb"}, "rest": "rest",
             "indexes": [\(text)]}
            """)
        #expect(found.indexes == [.init(columns: columns, isGIN: isGIN)])
    }

    /// Checks that a history is a separate definition next to its mirror, with all members except the indexes.
    @Test func aHistoryIsAMirror() throws {
        let text = """
            {"name": "posts", "path": "/p/{k}", "table": "s.t", "comment": "c", "target": "env:X", "columns": {"x": "text"},
             "rest": "r", "indexes": ["x"], "history": true, "deleted": "soft"}
            """
        let found = try MirrorDefinition.read(Array(text.utf8), source: "test")
        #expect(found.map(\.name) == ["posts", "posts_changes"])
        #expect(found.map(\.tableName) == ["s.t", "s.t_changes"])
        #expect(found.map(\.keeps) == [.latest, .changes])
        #expect(found.map(\.indexes.count) == [1, 0])
        for history in found {
            #expect(history.columns == found[0].columns && history.rest == found[0].rest && history.target == "env:X")
            // The stored form contains one definition only.
            let again = try MirrorDefinition.read(history.json, source: "test")
            #expect(again.map(\.keeps) == [history.keeps] && again[0].json == history.json)
        }
        let none = try MirrorDefinition.read(
            Array(#"{"name": "a", "path": "/{k}", "history": false}"#.utf8), source: "test")
        #expect(none.map(\.name) == ["a"])
    }

    @Test func allTypesAreKnownByTheirNames() throws {
        for type in ColumnType.allCases {
            let found = try definition(
                "{\"name\": \"a\", \"path\": \"/{k}\", \"columns\": {\"x\": \"\(type.rawValue)\"}}")
            #expect(found.columns[0].type == type)
        }
        for type in KeyType.allCases {
            let found = try definition(
                "{\"name\": \"a\", \"path\": \"/{k}\", \"keys\": {\"k\": {\"type\": \"\(type.rawValue)\"}}}")
            #expect(found.keys[0].type == type)
        }
    }

    /// Checks that a definition that is written and read again is unchanged, in both formats.
    @Test(arguments: 1...3) func writtenAndReadAgain(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let names = ["a", "B c", "é", "🎈", "q\"uote", "back\\slash", "x'y", "tab\t", "select", "a/b"]
        func quoted(_ text: String) -> String {
            String(decoding: JSONWriter.encode(.string(text), form: .plain), as: UTF8.self)
        }
        for _ in 0..<300 {
            var members = [
                "\"name\": \"m\(random.below(100))\"", "\"path\": \"/\(random.pick(["a/", ""])){k1}/x y/{k2}\"",
            ]
            if random.oneIn(3) { members.append("\"filter\": \"data.child('q\\\"').val() == $k1\"") }
            if random.oneIn(3) { members.append("\"namespace\": \(quoted(random.pick(names)))") }
            if random.oneIn(3) { members.append("\"comment\": \(quoted(random.pick(names)))") }
            if random.oneIn(2) { members.append("\"table\": \(quoted(random.pick(["t", "s.t", "S é.T\""])))") }
            if random.oneIn(3) { members.append("\"keep errors\": \(random.below(100_001))") }
            if random.oneIn(2) {
                let key =
                    random.oneIn(2) ? "\"bigint\"" : "{\"type\": \"uuid\", \"comment\": \(quoted(random.pick(names)))}"
                members.append("\"keys\": {\"k2\": \(key)}")
            }
            var columns: [String] = []
            for index in 0..<random.below(6) {
                let type = random.pick(ColumnType.allCases)
                var parts = ["\"type\": \"\(type.rawValue)\""]
                if random.oneIn(2) {
                    parts.append("\"path\": \(quoted(random.pick([".", "a/b", ".priority", "x y/.priority", "é"])))")
                }
                if random.oneIn(3), [.text, .bigint, .double, .numeric].contains(type) {
                    parts.append("\"default\": \(type == .text ? quoted(random.pick(names)) : "\(random.below(9))")")
                    if random.oneIn(2) { parts.append("\"not null\": \"default\"") }
                } else if random.oneIn(3) {
                    parts.append("\"not null\": \"\(random.pick(["skip", "error"]))\"")
                }
                if random.oneIn(3) { parts.append("\"comment\": \(quoted(random.pick(names)))") }
                columns.append("\"c\(index)\": {\(parts.joined(separator: ", "))}")
            }
            members.append("\"columns\": {\(columns.joined(separator: ", "))}")
            if random.oneIn(2) {
                members.append("\"rest\": {\"column\": \"rest\", \"comment\": \(quoted(random.pick(names)))}")
            }
            if random.oneIn(2) { members.append("\"indexes\": [\"k1\", [\"k2\", \"_seq\"]]") }
            let read = try definition("{\(members.joined(separator: ", "))}")
            for bytes in [read.json, read.encoded(pretty: true)] {
                let again = try MirrorDefinition.read(bytes, source: "again")
                #expect(again == [read], "\(members)")
            }
        }
    }

    /// Checks the differences that a plan lists, and those that it does not.
    @Test(arguments: [
        (#""path": "/b/{k}""#, "the path: /a/{k} → /b/{k}"),
        (#""path": "/a/{k}", "filter": "data.hasChildren()""#, "the filter"),
        (#""path": "/a/{k}", "table": "t""#, "the table: mirror.m → mirror.t"),
        (#""path": "/a/{k}", "keys": {"k": "bigint"}"#, "the type of k: text → bigint"),
        (#""path": "/a/{k}", "columns": {"x": "bigint"}"#, "the type of x: text → bigint"),
        (#""path": "/a/{k}", "columns": {"x": {"type": "text", "path": "y"}}"#, "the path of x"),
        (#""path": "/a/{k}", "columns": {"x": {"type": "text", "default": "d"}}"#, "the default of x"),
        (#""path": "/a/{k}", "columns": {"x": {"type": "text", "not null": "skip"}}"#, "\"not null\" of x"),
        (#""path": "/a/{k}", "columns": {}"#, "x is removed"),
        (#""path": "/a/{k}", "columns": {"x": "text", "y": "text"}"#, "the new column y"),
        (#""path": "/a/{k}", "columns": {"x": "text"}, "rest": "r""#, "the column \"rest\""),
        (#""path": "/a/{k}", "columns": {"x": "text"}, "indexes": ["x"]"#, "the indexes"),
        (#""path": "/a/{k}", "columns": {"x": "text"}, "keep errors": 5"#, "the number of kept errors"),
        (#""path": "/a/{k}", "columns": {"x": "text"}, "comment": "c""#, "the comments"),
        (#""path": "/a/{k}", "columns": {"x": {"type": "text", "comment": "c"}}"#, "the comments"),
    ])
    func differences(members: String, difference: String) throws {
        let columns = members.contains("columns") ? "" : #", "columns": {"x": "text"}"#
        let old = try definition(#"{"name": "m", "path": "/a/{k}", "columns": {"x": "text"}}"#)
        let new = try definition("{\"name\": \"m\", \(members)\(columns)}")
        #expect(MirrorPlan.differences(old, new) == [difference])
        #expect(MirrorPlan.differences(old, old) == [])
    }

    @Test func theOrderOfColumnsIsADifference() throws {
        let old = try definition(#"{"name": "m", "path": "/{k}", "columns": {"x": "text", "y": "text"}}"#)
        let new = try definition(#"{"name": "m", "path": "/{k}", "columns": {"y": "text", "x": "text"}}"#)
        #expect(MirrorPlan.differences(old, new) == ["the order of the columns"])
    }
}
