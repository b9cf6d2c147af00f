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

    private static let authorColumns = [
        own("_uid", "text", .text, "The user who did that."),
        own("_admin", "boolean", .bool, "Whether rules were not asked."),
        own("_via", "text", .text, "The transport: rest, ws, cli, sql."),
    ]

    private static let misfits = own(
        MirrorDefinition.misfitsColumn, "text[]", .text, "Columns whose values did not fit.")

    /// The columns behind the keys of a table of changes.
    static let changeColumns: [Column] =
        [
            own(
                MirrorDefinition.seqColumn, "bigint", .int8, isNotNull: true,
                "The entry of the log that made the change."),
            own(
                MirrorDefinition.changedAtColumn, "timestamptz", .timestamptz, "When that entry was committed."),
            own("_operation", "text", .text, isNotNull: true, "insert, update, delete; begin: so it was before."),
        ] + authorColumns + [
            own("_old", "jsonb", .jsonb, "The row before."), own("_new", "jsonb", .jsonb, "The row from then on."),
            misfits,
        ]

    /// The columns behind the values of a table of versions.
    static let versionColumns: [Column] =
        [
            own(MirrorDefinition.seqColumn, "bigint", .int8, isNotNull: true, "The entry of the log that made it so."),
            own(
                MirrorDefinition.validFromColumn, "timestamptz", .timestamptz, "When that entry was committed."),
            own("_valid_to", "timestamptz", .timestamptz, "When the next version began; null for the current one."),
            own("_current", "boolean", .bool, isNotNull: true, "Whether it is so now."),
            own("_deleted", "boolean", .bool, isNotNull: true, "Whether the record was gone."),
        ] + authorColumns + [misfits]

    /// The index that finds the current version of a record, and keeps it the only one.
    var currentIndexSQL: [String] {
        guard definition.keeps == .versions else { return [] }
        return [
            """
            create unique index \(quotedIdentifier(currentIndexName(of: name))) on \(qualifiedName)
            (\(Self.list(columns.filter(\.isKey).map(\.name)))) where "_current"
            """
        ]
    }

    func currentIndexName(of table: String) -> String { Self.name([table, "_current"]) }

    /// The index that finds what came behind an entry, for who reads a history bit by bit.
    var seqIndexSQL: [String] {
        guard definition.isHistory else { return [] }
        let name = quotedIdentifier(seqIndexName(of: name))
        return ["create index \(name) on \(qualifiedName) (\(quotedIdentifier(MirrorDefinition.seqColumn)))"]
    }

    func seqIndexName(of table: String) -> String { Self.name([table, "_by_seq"]) }

    /// The names of the table's indexes, if it is called so, in an order that depends on the definition alone.
    func indexNames(of table: String) -> [String] {
        var names = [keyName(of: table)] + definition.indexes.map { indexName($0, of: table) }
        if definition.isHistory { names.append(seqIndexName(of: table)) }
        if definition.keeps == .versions { names.append(currentIndexName(of: table)) }
        return names
    }

    /// What `endVersions` takes.
    var endColumns: [Column] { columns.filter(\.isKey) + [Self.own("at", "timestamptz", .timestamptz, "")] }

    /// Ends the current versions of records.
    var endVersions: PostgresStatement {
        let count = definition.keys.count
        return PostgresStatement(
            "end \(label)",
            """
            update \(qualifiedName) as live set "_valid_to" = given.c\(count), "_current" = false
            from \(Self.unnest(endColumns)) where \(match) and live."_current"
            """, types: endColumns.map { $0.carrier.arrayType ?? .textArray })
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
