import Postgres
import Tree

/// A mirror's table as SQL: what makes it, and what writes to it.
struct MirrorTable: Sendable {
    /// A column, and how its values travel.
    struct Column: Sendable {
        let name: String
        let sqlType: String
        /// The elements of the array that carries a batch's values.
        let carrier: PostgresType
        let isNotNull: Bool
        let comment: String?
        let isKey: Bool

        /// The carried value as the column's type.
        func cast(_ reference: String) -> String {
            switch sqlType {
            case "numeric", "date", "uuid", "text[]": "\(reference)::\(sqlType)"
            default: reference
            }
        }
    }

    let definition: MirrorDefinition
    /// Tells statements of one table from another's.
    let label: String
    let schema: String
    let name: String
    /// Keys, columns, the rest; then ours.
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

    /// Removes the rows that begin with some captured keys, for a number of such beginnings at once.
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

    static let restComment = "What no other column takes."

    /// The definition's columns and the rest.
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
                comment: "The entry of the log that wrote the row last, or at which the table was filled.", isKey: false
            ),
            Column(
                name: MirrorDefinition.updatedAtColumn, sqlType: "timestamptz", carrier: .timestamptz,
                isNotNull: false, comment: "When the last entry that wrote the record was committed.", isKey: false),
            Column(
                name: MirrorDefinition.misfitsColumn, sqlType: "text[]", carrier: .text, isNotNull: false,
                comment: "Columns whose values did not fit; see pathmirror.mirror_misfit.", isKey: false),
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
