import LogStore
import Postgres

extension MirrorTable {
    /// Makes the table without its key and indexes, which come cheaper when it is full.
    var createSQL: [String] {
        let lines = columns.map { column in
            "\(quotedIdentifier(column.name)) \(column.sqlType)\(column.isNotNull ? " not null" : "")"
        }
        return [
            SchemaMaking.sql(schema),
            "create table \(qualifiedName) (\(lines.joined(separator: ", ")))",
        ]
    }

    /// Adds the primary key and the indexes, under names that depend on the table's.
    var indexSQL: [String] {
        let name = quotedIdentifier(keyName(of: name))
        let key = "alter table \(qualifiedName) add constraint \(name) primary key (\(Self.list(identity)))"
        return [key] + definition.indexes.map { createSQL($0) } + seqIndexSQL
    }

    func createSQL(_ index: MirrorDefinition.Index) -> String {
        """
        create index \(quotedIdentifier(indexName(index, of: name))) on \(qualifiedName)
        using \(index.isGIN ? "gin" : "btree") (\(Self.list(index.columns)))
        """
    }

    /// The comments, which are set again whenever the definition changes.
    var commentSQL: [String] {
        var statements = ["comment on table \(qualifiedName) is \(Self.comment(definition.comment))"]
        for column in columns {
            let name = quotedIdentifier(column.name)
            statements.append("comment on column \(qualifiedName).\(name) is \(Self.comment(column.comment))")
        }
        return statements + versionsCommentSQL
    }

    /// The names that its key, its indexes and its view have beside it in its schema.
    var relationNames: Set<String> {
        let view = definition.isHistory ? [MirrorDefinition.versionsView(of: name)] : []
        return Set(indexNames(of: name) + view)
    }

    func keyName(of table: String) -> String { RelationName.joined([table, "pkey"]) }

    func indexName(_ index: MirrorDefinition.Index, of table: String) -> String {
        Self.indexName(index, among: definition.indexes, of: table)
    }

    /// The columns joined by `_`; where another index of the definition (`a_b` beside `a` and `b`) would have the same name,
    /// with a hash that tells the two apart.
    static func indexName(
        _ index: MirrorDefinition.Index, among all: [MirrorDefinition.Index], of table: String
    ) -> String {
        let plain = [table] + index.columns + [index.kind]
        let isShared = all.contains { other in
            other != index
                && ([table] + other.columns + [other.kind]).joined(separator: "_") == plain.joined(separator: "_")
        }
        guard isShared else { return RelationName.joined(plain) }
        let columns = index.columns.map { "\($0.utf8.count) \($0)" }.joined(separator: " ")
        return RelationName.joined([table] + index.columns + [RelationName.hash(columns), index.kind])
    }

    /// A comment as SQL: COMMENT takes no parameters.
    static func comment(_ text: String?) -> String { text.map { literal($0) } ?? "null" }

    /// A text as SQL, for statements that take no parameters.
    static func literal(_ text: String) -> String {
        var quoted = "E'"
        for scalar in text.unicodeScalars {
            if scalar == "'" || scalar == "\\" { quoted += "\\" }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "'"
    }
}

extension MirrorDefinition.Index {
    /// What its name ends with.
    fileprivate var kind: String { isGIN ? "gin" : "idx" }
}
