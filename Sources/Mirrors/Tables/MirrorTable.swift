import LogStore
import Postgres
import Tree

/// The SQL statements that create a mirror's table and write to it.
struct MirrorTable: Sendable {
    /// A column, and the form in which its values are sent.
    struct Column: Sendable {
        let name: String
        let sqlType: String
        /// The element type of the array with a batch's values.
        let carrier: PostgresType
        let isNotNull: Bool
        let comment: String?
        let isKey: Bool

        /// Returns SQL that casts the sent value to the column's type.
        func cast(_ reference: String) -> String {
            switch sqlType {
            case "numeric", "date", "uuid", "text[]": "\(reference)::\(sqlType)"
            default: reference
            }
        }
    }

    let definition: MirrorDefinition
    /// Distinguishes the statements of this table from those of other tables.
    let label: String
    let schema: String
    let name: String
    /// Keys, columns, the rest, then Pathmirror's own columns.
    let columns: [Column]
    /// The columns of the primary key.
    let identity: [String]
    let upsert: PostgresStatement
    let deleteRows: PostgresStatement

    init(_ definition: MirrorDefinition, name: String, label: String) {
        self.definition = definition
        self.label = label
        self.name = name
        schema = definition.schema
        columns = Self.columns(definition)
        identity = definition.keys.map(\.name) + (definition.isHistory ? [MirrorDefinition.seqColumn] : [])
        let table = "\(quotedIdentifier(schema)).\(quotedIdentifier(name))"
        upsert = Self.upsert(table, columns, identity, label)
        deleteRows = Self.delete(table, columns, keyCount: definition.keys.count, label)
    }

    var qualifiedName: String { "\(quotedIdentifier(schema)).\(quotedIdentifier(name))" }

    /// Returns the statement that removes the rows whose keys begin with some captured keys, for several such prefixes at once.
    func deleteRanges(keyCount: Int) -> PostgresStatement {
        keyCount == definition.keys.count
            ? deleteRows : Self.delete(qualifiedName, columns, keyCount: keyCount, label)
    }

    var copySQL: String {
        let format = RowCopier.isBinary(self) ? " (format binary)" : ""
        return "copy \(qualifiedName) (\(Self.list(columns.map(\.name)))) from stdin\(format)"
    }

    // MARK: Columns

    private static func columns(_ definition: MirrorDefinition) -> [Column] {
        let keys = definition.keys.map { key in
            let type = key.type == .text ? "text collate \"C\"" : key.type.rawValue
            return Column(
                name: key.name, sqlType: type, carrier: key.type == .bigint ? .int8 : .text, isNotNull: true,
                comment: key.comment, isKey: true)
        }
        return switch definition.keeps {
        case nil: keys + values(definition) + ownColumns
        case .latest: keys + values(definition) + ownColumns + [deletedAt]
        case .changes: keys + changeColumns
        }
    }

    static let restComment = "The values that no other column stores."

    /// Returns the definition's columns and the rest column.
    private static func values(_ definition: MirrorDefinition) -> [Column] {
        var columns = definition.columns.map { column in
            Column(
                name: column.name, sqlType: column.type.sql, carrier: carrier(column.type),
                isNotNull: column.notNull != nil, comment: column.comment, isKey: false)
        }
        if let rest = definition.rest {
            columns.append(
                Column(
                    name: rest.name, sqlType: "jsonb", carrier: .jsonb, isNotNull: false,
                    comment: rest.comment ?? restComment, isKey: false))
        }
        return columns
    }

    private static var ownColumns: [Column] {
        [
            Column(
                name: MirrorDefinition.seqColumn, sqlType: "bigint", carrier: .int8, isNotNull: true,
                comment: "The log entry that last wrote the row, or at which the table was filled.", isKey: false
            ),
            Column(
                name: MirrorDefinition.updatedAtColumn, sqlType: "timestamptz", carrier: .timestamptz,
                isNotNull: false, comment: "When the last entry that wrote the record was committed.", isKey: false),
            Column(
                name: MirrorDefinition.conversionErrorsColumn, sqlType: "text[]", carrier: .text, isNotNull: false,
                comment: "Columns whose values could not be converted; see pathmirror.mirror_misfit.", isKey: false),
        ]
    }

    private static func carrier(_ type: ColumnType) -> PostgresType {
        switch type {
        case .text, .numeric, .date, .textArray, .uuid: .text
        case .bigint: .int8
        case .double: .float8
        case .boolean: .bool
        case .timestamp: .timestamptz
        case .jsonb: .jsonb
        }
    }

    static func list(_ names: [String]) -> String {
        names.map { quotedIdentifier($0) }.joined(separator: ", ")
    }

    // MARK: Writing

    static func unnest(_ columns: [Column]) -> String {
        let arrays = columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let names = columns.indices.map { "c\($0)" }.joined(separator: ", ")
        return "unnest(\(arrays)) as given (\(names))"
    }

    private static func upsert(
        _ table: String, _ columns: [Column], _ identity: [String], _ label: String
    ) -> PostgresStatement {
        let values = columns.enumerated().map { $1.cast("given.c\($0)") }
        let updates = columns.filter { !identity.contains($0.name) }.map { column in
            "\(quotedIdentifier(column.name)) = excluded.\(quotedIdentifier(column.name))"
        }
        let sql = """
            insert into \(table) (\(list(columns.map(\.name))))
            select \(values.joined(separator: ", ")) from \(unnest(columns))
            on conflict (\(list(identity))) do update set \(updates.joined(separator: ", "))
            """
        return PostgresStatement("upsert \(label)", sql, types: columns.map { $0.carrier.arrayType ?? .textArray })
    }

    private static func delete(
        _ table: String, _ columns: [Column], keyCount: Int, _ label: String
    ) -> PostgresStatement {
        let keys = Array(columns.prefix(keyCount))
        guard !keys.isEmpty else { return PostgresStatement("empty \(label)", "delete from \(table)") }
        let conditions = keys.enumerated().map { index, key in
            "live.\(quotedIdentifier(key.name)) = \(key.cast("given.c\(index)"))"
        }
        let sql = "delete from \(table) as live using \(unnest(keys)) where \(conditions.joined(separator: " and "))"
        return PostgresStatement(
            "delete\(keyCount) \(label)", sql, types: keys.map { $0.carrier.arrayType ?? .textArray })
    }
}

extension MirrorTable {
    /// Creates the table without its key and indexes, which are cheaper to create when it is full.
    var createSQL: [String] {
        let lines = columns.map { column in
            "\(quotedIdentifier(column.name)) \(column.sqlType)\(column.isNotNull ? " not null" : "")"
        }
        return [
            SchemaMaking.sql(schema),
            "create table \(qualifiedName) (\(lines.joined(separator: ", ")))",
        ]
    }

    /// Adds the primary key and the indexes, with names derived from the table's.
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

    /// Sets the comments. Executed whenever the definition changes.
    var commentSQL: [String] {
        var statements = ["comment on table \(qualifiedName) is \(Self.comment(definition.comment))"]
        for column in columns {
            let name = quotedIdentifier(column.name)
            statements.append("comment on column \(qualifiedName).\(name) is \(Self.comment(column.comment))")
        }
        return statements + versionsCommentSQL
    }

    /// The names of the table's key, indexes and view in its schema.
    var relationNames: Set<String> {
        let view = definition.isHistory ? [MirrorDefinition.versionsView(of: name)] : []
        return Set(indexNames(of: name) + view)
    }

    func keyName(of table: String) -> String { RelationName.joined([table, "pkey"]) }

    func indexName(_ index: MirrorDefinition.Index, of table: String) -> String {
        Self.indexName(index, among: definition.indexes, of: table)
    }

    /// Joins the columns by `_`. If another index of the definition would have the same name (`a_b` beside `a` and `b`), a hash
    /// distinguishes the two.
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

    /// Returns a comment as an SQL literal, because COMMENT takes no parameters.
    static func comment(_ text: String?) -> String { text.map { literal($0) } ?? "null" }

    /// Returns a text as an SQL literal, for statements without parameters.
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
    /// The ending of the index's name.
    fileprivate var kind: String { isGIN ? "gin" : "idx" }
}

/// Finds the reason why the table did not accept or remove rows.
extension MirrorTable {
    /// Counts the rows passed to `upsert` that the table contains unchanged.
    var same: PostgresStatement {
        let conditions = columns.enumerated().map { index, column in
            let live = "live.\(quotedIdentifier(column.name))"
            return "\(live) \(column.isKey ? "=" : "is not distinct from") \(column.cast("given.c\(index)"))"
        }
        return PostgresStatement(
            "same \(label)",
            """
            select count(*) from \(Self.unnest(columns))
            join \(qualifiedName) as live on \(conditions.joined(separator: " and "))
            """, types: columns.map { $0.carrier.arrayType ?? .textArray })
    }

    /// Returns the captured keys of the rows that begin with some of them.
    func keys(below beginning: [Key], _ target: PostgresConnection) throws(PostgresError) -> [[Key]] {
        let keys = columns.filter(\.isKey)
        let texts = zip(keys, definition.keys).map { column, key in
            let name = "live.\(quotedIdentifier(column.name))"
            // The text form of a date depends on the settings of the server or the role.
            return key.type == .date ? "to_char(\(name), 'YYYY-MM-DD')" : "\(name)::text"
        }
        let given = Array(keys.prefix(beginning.count))
        var sql = "select \(texts.joined(separator: ", ")) from \(qualifiedName) as live"
        if !given.isEmpty {
            let match = given.enumerated().map { "live.\(quotedIdentifier($1.name)) = \($1.cast("given.c\($0)"))" }
            sql += " join \(Self.unnest(given)) on \(match.joined(separator: " and "))"
        }
        let statement = PostgresStatement(
            "keys\(given.count) \(label)", sql, types: given.map { $0.carrier.arrayType ?? .textArray })
        let rows = try target.executePrepared(statement, RowEncoder.keys(self, [beginning]))
        var found: [[Key]] = []
        for row in 0..<rows.rowCount {
            var one: [Key] = []
            for column in keys.indices { one.append(Key(try rows.string(row, column))) }
            found.append(one)
        }
        return found
    }

    /// Returns the name of a rule of the table that replaces an INSERT or an UPDATE, or nil if there is none.
    func replacingRule(_ target: PostgresConnection) throws(PostgresError) -> String? {
        let rules = try target.execute(
            """
            select rulename::text from pg_rewrite
            where ev_class = to_regclass($1) and is_instead and ev_type in ('2', '3') and ev_enabled in ('O', 'A')
            order by 1 limit 1
            """, [.text(qualifiedName)])
        return rules.rowCount == 0 ? nil : try rules.string(0, 0)
    }
}
