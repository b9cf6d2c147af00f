import Postgres

/// What tables have in addition that keep what their records were.
extension MirrorTable {
    static let deletedAt = own(
        MirrorDefinition.deletedAtColumn, "timestamptz", .timestamptz, "When the record was removed.")

    private static func own(
        _ name: String, _ type: String, _ carrier: PostgresType, isNotNull: Bool = false, _ comment: String
    ) -> Column {
        Column(name: name, sqlType: type, carrier: carrier, isNotNull: isNotNull, comment: comment, isKey: false)
    }

    static let authorColumns = [
        own("_uid", "text", .text, "The user who did that."),
        own("_admin", "boolean", .bool, "Whether rules were not asked."),
        own("_via", "text", .text, "The transport: rest, ws, cli, sql."),
    ]

    static let misfits = own(
        MirrorDefinition.misfitsColumn, "text[]", .text, "Columns whose values did not fit.")

    /// The columns behind the keys of a table of changes.
    static let changeColumns: [Column] =
        [
            own(
                MirrorDefinition.seqColumn, "bigint", .int8, isNotNull: true,
                "The entry of the log that made the change."),
            own("_at", "timestamptz", .timestamptz, "When that entry was committed."),
            own("_operation", "text", .text, isNotNull: true, "insert, update, delete; begin: so it was before."),
        ] + authorColumns + [
            own("_old", "jsonb", .jsonb, "The row before."), own("_new", "jsonb", .jsonb, "The row from then on."),
            misfits,
        ]

    /// The index that finds what came behind an entry, for who reads a history bit by bit.
    var seqIndexSQL: [String] {
        guard definition.isHistory else { return [] }
        let name = quotedIdentifier(seqIndexName(of: name))
        return ["create index \(name) on \(qualifiedName) (\(quotedIdentifier(MirrorDefinition.seqColumn)))"]
    }

    func seqIndexName(of table: String) -> String { RelationName.joined([table, "_by_seq"]) }

    /// The names of the table's indexes, if it is called so, in an order that depends on the definition alone.
    func indexNames(of table: String) -> [String] {
        var names = [keyName(of: table)] + definition.indexes.map { indexName($0, of: table) }
        if definition.isHistory { names.append(seqIndexName(of: table)) }
        return names
    }

    /// What `markDeleted` takes.
    var markColumns: [Column] {
        columns.filter(\.isKey) + [
            Self.own("seq", "bigint", .int8, ""), Self.own("at", "timestamptz", .timestamptz, ""),
        ]
    }

    /// Says that records are gone whose rows stay.
    var markDeleted: PostgresStatement {
        let count = definition.keys.count
        let seq = quotedIdentifier(MirrorDefinition.seqColumn)
        let updatedAt = quotedIdentifier(MirrorDefinition.updatedAtColumn)
        let deletedAt = quotedIdentifier(MirrorDefinition.deletedAtColumn)
        return PostgresStatement(
            "mark \(label)",
            """
            update \(qualifiedName) as live
            set \(seq) = given.c\(count), \(updatedAt) = given.c\(count + 1), \(deletedAt) = given.c\(count + 1)
            from \(Self.unnest(markColumns)) where \(match)
            """, types: markColumns.map { $0.carrier.arrayType ?? .textArray })
    }

    private var match: String {
        columns.filter(\.isKey).enumerated().map { index, key in
            "live.\(quotedIdentifier(key.name)) = \(key.cast("given.c\(index)"))"
        }.joined(separator: " and ")
    }
}
