import JSONText
import Mirrors
import Testing

/// Checks every mistake that a definition can contain, with its position and message.
@Suite struct DefinitionMistakeTests {
    /// The mistakes in a definition, without the file's name.
    private func mistakes(_ text: String) -> [String] {
        do {
            _ = try MirrorDefinition.read(Array(text.utf8), source: "f")
            return []
        } catch {
            return error.description.split(separator: "\n").map { String($0.dropFirst(2)) }
        }
    }

    private static let types =
        "text, bigint, double precision, numeric, boolean, timestamptz, date, jsonb, text[], uuid"
    private static let members =
        "name, namespace, path, filter, table, target, comment, keys, columns, rest, indexes, keep errors, history, keeps, deleted"
    private static let columnMembers = "type, path, default, not null, comment"

    /// The mistakes in a definition with one more member.
    private func with(_ member: String) -> [String] { mistakes(#"{"name":"a","path":"/{k}",\#n\#(member)}"#) }

    @Test(arguments: [
        (#""more": 1"#, "2:1: more: is unknown here; known are \(members)"),
        (#""namespace": 1"#, "2:14: namespace: this should be a string, but is a number"),
        (#""namespace": "a\u0000""#, "2:14: namespace: PostgreSQL can't store U+0000"),
        (#""comment": null"#, "2:12: comment: this should be a string, but is null"),
        (#""comment": true"#, "2:12: comment: this should be a string, but is a boolean"),
        (#""comment": []"#, "2:12: comment: this should be a string, but is an array"),
        (#""comment": {}"#, "2:12: comment: this should be a string, but is an object"),
        (#""filter": 5"#, "2:11: filter: this should be a string, but is a number"),
        (#""filter": """#, "2:11: filter: The expression is empty."),
        (#""filter": "data.val(""#, "2:11: filter: syntax error"),
        (#""filter": "data.val()""#, "2:11: filter: Expression must evaluate to a boolean."),
        (#""filter": "newData.exists()""#, "2:11: filter: newData is invalid in filters."),
        (#""filter": "$other == 'x'""#, "2:11: filter: Unknown variable '$other'."),
        (
            #""filter": "auth != null && now > 5""#,
            "2:11: filter: names auth and now; a filter sees only the record, as data, and its keys"
        ),
        (
            #""filter": "root.child('a').exists()""#,
            "2:11: filter: names root; a filter sees only the record, as data, and its keys"
        ),
        (
            #""filter": "data.parent().child('a').exists()""#,
            "2:11: filter: names parent(); a filter sees only the record, as data, and its keys"
        ),
        (
            #""filter": "query.orderByKey""#,
            "2:11: filter: names query; a filter sees only the record, as data, and its keys"
        ),
        (#""table": "a.b.c""#, #"2:10: table: "a.b.c" is neither a table nor schema.table"#),
        (#""table": "a.""#, #"2:10: table: "a." is neither a table nor schema.table"#),
        (#""table": """#, #"2:10: table: "" is neither a table nor schema.table"#),
        (#""table": 5"#, "2:10: table: this should be a string, but is a number"),
        (
            #""table": "pathmirror.a""#,
            "2:10: table: the schema pathmirror is reserved; choose another schema, such as mirror"
        ),
        (#""table": "pg_x.a""#, "2:10: table: the schema pg_x is reserved; choose another schema, such as mirror"),
        (
            #""table": "information_schema.a""#,
            "2:10: table: the schema information_schema is reserved; choose another schema, such as mirror"
        ),
        (#""target": 5"#, "2:11: target: this should be a string, but is a number"),
        (#""target": "env:""#, "2:11: target: env: needs the name of an environment variable"),
        (#""keep errors": -1"#, "2:16: keep errors: this should be a whole number up to 100000"),
        (#""keep errors": 1.5"#, "2:16: keep errors: this should be a whole number up to 100000"),
        (#""keep errors": "5""#, "2:16: keep errors: this should be a whole number up to 100000"),
        (#""history": "changes""#, "2:12: history: this should be true or false, but is a string"),
        (#""history": ["changes"]"#, "2:12: history: this should be true or false, but is an array"),
        (#""keeps": "versions""#, #"2:10: keeps: this should be "changes", which makes the mirror a history"#),
        (
            #""history": true, "keeps": "changes""#,
            #"2:12: history: "keeps" already makes this mirror a history"#
        ),
        (
            #""deleted": "hard""#,
            #"2:12: deleted: this should be "soft", which keeps the rows of removed records"#
        ),
        (
            #""keeps": "changes", "deleted": "soft""#,
            "2:32: deleted: a history has its own rows for removed records: leave this out"
        ),
        (#""keeps": "changes", "indexes": ["_updated_at"]"#, #"2:33: indexes[0]: there is no column "_updated_at""#),
        (#""keys": []"#, "2:9: keys: this should be an object, but is an array"),
        (#""keys": {"x": "text"}"#, "2:10: keys.x: is unknown here; known are k"),
        (#""keys": {"k": 5}"#, "2:15: keys.k: this should be an object, but is a number"),
        (
            #""keys": {"k": "day"}"#,
            #"2:15: keys.k: a key can't be stored as "day"; types of keys are text, bigint, uuid, date"#
        ),
        (
            #""keys": {"k": {"type": "x"}}"#,
            #"2:24: keys.k.type: a key can't be stored as "x"; types of keys are text, bigint, uuid, date"#
        ),
        (#""keys": {"k": {"type": "text", "more": 1}}"#, "2:32: keys.k.more: is unknown here; known are type, comment"),
        (#""keys": {"k": {"comment": 1}}"#, "2:27: keys.k.comment: this should be a string, but is a number"),
    ])
    func ofTheWhole(member: String, mistake: String) { #expect(with(member) == [mistake]) }

    @Test(arguments: [
        (#""columns": []"#, "2:12: columns: this should be an object of columns by name, but is an array"),
        (#""columns": "x""#, "2:12: columns: this should be an object of columns by name, but is a string"),
        (#""columns": {"x": 5}"#, "2:18: columns.x: this should be an object, but is a number"),
        (#""columns": {"x": "int"}"#, #"2:18: columns.x: there is no type "int"; types are \#(types)"#),
        (#""columns": {"x": {}}"#, "2:18: columns.x: the type is missing; types are \(types)"),
        (#""columns": {"x": {"type": 5}}"#, "2:27: columns.x.type: this should be a string, but is a number"),
        (
            #""columns": {"x": {"type": "TEXT"}}"#,
            #"2:27: columns.x.type: there is no type "TEXT"; types are \#(types)"#
        ),
        (
            #""columns": {"x": {"type": "text", "of": 1}}"#,
            "2:35: columns.x.of: is unknown here; known are \(columnMembers)"
        ),
        (
            #""columns": {"x": {"type": "text", "path": 1}}"#,
            "2:43: columns.x.path: this should be a string, but is a number"
        ),
        (
            #""columns": {"x": {"type": "text", "path": "/"}}"#,
            #"2:43: columns.x.path: the path is empty; the record itself is ".""#
        ),
        (
            #""columns": {"x": {"type": "text", "path": ".priority/x"}}"#,
            #"2:43: columns.x.path: the path's part ".priority" contains ".""#
        ),
        (#""columns": {"a.b": "text"}"#, #"2:20: columns.a.b: the path's part "a.b" contains ".""#),
        (
            #""columns": {"x": {"type": "text", "default": []}}"#,
            "2:46: columns.x.default: a default must be a string, a number or a boolean"
        ),
        (
            #""columns": {"x": {"type": "text[]", "default": {}}}"#,
            "2:48: columns.x.default: a default must be a string, a number or a boolean"
        ),
        (
            #""columns": {"x": {"type": "bigint", "default": 1.5}}"#,
            "2:48: columns.x.default: the default doesn't fit bigint: the number is not a whole number of 64 bits"
        ),
        (
            #""columns": {"x": {"type": "date", "default": "x"}}"#,
            "2:46: columns.x.default: the default doesn't fit date: the text is not a date such as 2026-01-31, nor an ISO 8601 time"
        ),
        (
            #""columns": {"x": {"type": "text[]", "default": "x"}}"#,
            "2:48: columns.x.default: the default doesn't fit text[]: a text where a set of keys should be"
        ),
        (
            #""columns": {"x": {"type": "text", "not null": "no"}}"#,
            #"2:47: columns.x.not null: this should be one of "skip", "error", "default", for records without the value"#
        ),
        (
            #""columns": {"x": {"type": "text", "not null": true}}"#,
            "2:47: columns.x.not null: this should be a string, but is a boolean"
        ),
        (
            #""columns": {"x": {"type": "text", "not null": "default"}}"#,
            #"2:18: columns.x: "not null" is "default", but there is no default"#
        ),
        (
            #""columns": {"x": {"type": "text", "comment": 1}}"#,
            "2:46: columns.x.comment: this should be a string, but is a number"
        ),
        (#""columns": {"k": "text"}"#, "2:12: columns.k: there are two columns with this name"),
        (#""columns": {"_seq": "text"}"#, "2:12: columns._seq: names that begin with _ are reserved for Pathmirror"),
        (
            #""columns": {"\#(String(repeating: "é", count: 32))": "text"}"#,
            #"2:12: columns: "\#(String(repeating: "é", count: 32))" has 64 bytes; a name in PostgreSQL has at most 63"#
        ),
    ])
    func ofColumns(member: String, mistake: String) { #expect(with(member) == [mistake]) }

    @Test(arguments: [
        (#""rest": 5"#, "2:9: rest: this should be an object, but is a number"),
        (#""rest": {}"#, "2:9: rest: the column's name is missing"),
        (#""rest": {"column": 5}"#, "2:20: rest.column: this should be a string, but is a number"),
        (#""rest": {"column": "r", "of": 1}"#, "2:25: rest.of: is unknown here; known are column, comment"),
        (#""rest": "k""#, "1:1: columns.k: there are two columns with this name"),
        (#""rest": """#, "1:1: columns: a name is empty"),
        (#""indexes": {}"#, "2:12: indexes: this should be an array of indexes, but is an object"),
        (#""indexes": [5]"#, "2:13: indexes[0]: this should be a column's name or an array of them, but is a number"),
        (#""indexes": [[]]"#, "2:13: indexes[0]: the index has no columns"),
        (#""indexes": ["k", "x"]"#, #"2:18: indexes[1]: there is no column "x""#),
        (#""indexes": [["k", 5]]"#, "2:19: indexes[0]: this should be a string, but is a number"),
        (#""indexes": [{}]"#, "2:13: indexes[0]: the columns are missing"),
        (
            #""indexes": [{"columns": ["k"], "using": "hash"}]"#,
            #"2:41: indexes[0].using: there is no method "hash"; methods are btree, gin"#
        ),
        (
            #""indexes": [{"columns": ["k"], "using": "gin"}]"#,
            "2:25: indexes[0]: a gin index accepts only columns of jsonb and arrays"
        ),
        (
            #""indexes": [{"columns": ["k"], "with": 1}]"#,
            "2:32: indexes[0].with: is unknown here; known are columns, using"
        ),
    ])
    func ofTheRestAndIndexes(member: String, mistake: String) { #expect(with(member) == [mistake]) }

    @Test(arguments: [
        ("", "1:1: the text ends where a value should be"),
        ("nul", "1:1: unexpected character where a value should be"),
        ("{} x", "1:4: there is more text after the value"),
        ("[1", "1:3: expected , or ] in an array"),
        ("[1,", "1:4: the text ends where a value should be"),
        ("{\"a\"", "1:5: expected : after a key"),
        ("{\"a\":1", "1:7: expected , or } in an object"),
        ("{\"a\":1,}", "1:8: expected a key in double quotes"),
        ("{a:1}", "1:2: expected a key in double quotes"),
        ("\n\n  \"abc", "3:7: the text ends inside a string"),
        ("\"a\nb\"", "1:3: a control character in a string"),
        (#""\x""#, "1:3: unknown escape in a string"),
        (#""\u12""#, "1:4: expected four hexadecimal digits"),
        ("01", "1:3: this is not a number"),
        ("-", "1:2: this is not a number"),
        ("1.", "1:3: expected a digit"),
        ("1e+", "1:4: expected a digit"),
        ("[1] [2]", "1:5: there is more text after the value"),
        (#"{"name":"a","name":"b"}"#, #"1:13: "name" comes twice in one object"#),
        ("{\"mirrors\": []}", "1:1: there is no mirror in this file"),
        ("5", "1:1: this should be an object, but is a number"),
        ("[[]]", "1:2: this should be an object, but is an array"),
    ])
    func ofTheText(text: String, mistake: String) {
        #expect(
            mistakes(text).map { String($0) } == [mistake]
                || mistakes(text).first?.hasSuffix(String(mistake.split(separator: " ", maxSplits: 1)[1])) == true)
        #expect(mistakes(text).first?.hasPrefix(String(mistake.prefix { $0 != " " })) == true, "\(mistakes(text))")
    }

    /// Checks that a history's name, table and view differ from those of other mirrors, in any order of definitions.
    @Test(arguments: [
        (#"{"name":"a_changes","path":"/v/{k}"}"#, "name"),
        (#"{"name":"b","table":"a_changes","path":"/v/{k}"}"#, "table"),
        (#"{"name":"b","table":"a_versions","path":"/v/{k}"}"#, "table"),
        (#"{"name":"b","table":"a","path":"/v/{k}","history":true}"#, "table"),
    ])
    func namesOfHistories(other: String, what: String) {
        let one = #"{"name":"a","path":"/{k}","history":true}"#
        let later = mistakes("[\(other),\n\(one)]")
        #expect(later.count == 1 && later.allSatisfy { $0.hasPrefix("2:1: history: ") }, "\(later)")
        #expect(later.allSatisfy { $0.contains("has the \(what) of another mirror") }, "\(later)")
        let before = mistakes("[\(one),\n\(other)]")
        #expect(before.count == 1 && before.allSatisfy { $0.hasPrefix("2:1: ") && $0.contains(what) }, "\(before)")
        // The same names are allowed in another database or namespace.
        let elsewhere = other.replacing(#""path""#, with: #""namespace":"n","target":"env:T","path""#)
        #expect(mistakes("[\(elsewhere),\n\(one)]") == [])
    }

    @Test func bytesThatAreNoText() throws {
        for bytes: [UInt8] in [
            [0xFF], Array("{\"a\":\"".utf8) + [0xC3, 0x28] + Array("\"}".utf8), [0xED, 0xA0, 0x80],
        ] {
            #expect(throws: DefinitionError.self) { try MirrorDefinition.read(bytes, source: "f") }
        }
    }

    /// Checks that all mistakes of a file are reported together, in the order of its mirrors.
    @Test func allAreReportedAtOnce() {
        let found = mistakes(
            """
            [{"name": "a b", "path": "/{k}", "columns": {"x": "int", "k": "text"}, "indexes": ["z"]},
             {"path": "nothing"},
             {"name": "fine", "path": "/{k}"}]
            """)
        #expect(
            found.map { String($0.prefix { $0 != " " }) } == ["1:11:", "1:51:", "1:45:", "1:84:", "2:2:", "2:11:"],
            "\(found)")
    }

    /// Checks that a column with a mistake is not also reported as missing.
    @Test func aMistakeIsReportedOnce() {
        let found = mistakes(
            #"""
            {"name": "a", "path": "/{k}", "columns": {"at": {"type": "timestamptz", "path": "x.y"}}, "indexes": ["at"]}
            """#)
        #expect(found.count == 1 && found[0].contains("columns.at.path"), "\(found)")
    }

    @Test func aPositionIsCountedInBytesAndLines() {
        #expect(mistakes("{\r\n\"name\": \"é🎈\",\n\t\"path\": \"/{k}\"}")[0].hasPrefix("2:9: name: "))
        #expect(mistakes("{\"name\": \"a\", \"é🎈\": 1, \"path\": \"/{k}\"}")[0].hasPrefix("1:15: é🎈: "))
        #expect(mistakes("{\"comment\": \"é🎈\", \"name\": 5, \"path\": \"/{k}\"}")[0].hasPrefix("1:31: name: "))
    }

    @Test(arguments: [
        "", " ", "a b", "a.b", "é", String(repeating: "x", count: 64),
    ])
    func namesThatAreNone(name: String) {
        #expect(
            mistakes("{\"name\": \"\(name)\", \"path\": \"/{k}\"}").contains {
                $0.hasPrefix("1:10: name: a mirror's name has 1 to 63 letters, digits, _ and -")
            })
    }

    @Test func aTableHasNotTooManyColumns() {
        let columns = { (count: Int) in (0..<count).map { "\"c\($0)\": \"text\"" }.joined(separator: ",") }
        #expect(with("\"columns\": {\(columns(1_499))}") == [])
        #expect(
            with("\"columns\": {\(columns(1_500))}") == ["2:12: columns: a table can't have more than 1500 columns"])
    }

    @Test func nestingEndsSomewhere() {
        let text = String(repeating: "[", count: 70) + String(repeating: "]", count: 70)
        #expect(mistakes(text)[0].contains("more than 64 levels deep"))
    }
}
