import Postgres

/// The view of versions over a table of changes. It has a row for each state of a record, with the time during which it was
/// valid.
extension MirrorTable {
    private struct ViewColumn {
        let name: String
        /// SQL for the value, computed from a row of the table of changes.
        let value: String
        let comment: String?
    }

    /// The view's qualified name, or nil for a table that is no history.
    var versionsView: String? {
        guard definition.isHistory else { return nil }
        let name = MirrorDefinition.versionsView(of: name)
        return "\(quotedIdentifier(schema)).\(quotedIdentifier(name))"
    }

    /// Whether the database has the view. A view with its name that does not read the table, or has other columns, does not
    /// count.
    func hasVersionsView(_ target: PostgresConnection) throws(PostgresError) -> Bool {
        guard let view = versionsView else { return false }
        var names = PostgresArray(of: .text)
        for column in viewColumns { names.appendText(column.name) }
        return try target.execute(
            """
            select exists (
                select from pg_class join pg_rewrite on ev_class = pg_class.oid
                join pg_depend on classid = 'pg_rewrite'::regclass and objid = pg_rewrite.oid
                where pg_class.oid = to_regclass($1) and relkind = 'v'
                    and refclassid = 'pg_class'::regclass and refobjid = to_regclass($2))
                and (
                    select array_agg(attname::text order by attnum) from pg_attribute
                    where attrelid = to_regclass($1) and attnum > 0 and not attisdropped) = $3
            """, [.text(view), .text(qualifiedName), .array(names)]
        ).bool(0, 0)
    }

    /// Creates the view. Its readers also need the right to read the table, and are subject to the table's policies.
    var versionsSQL: [String] {
        guard let view = versionsView else { return [] }
        let columns = viewColumns.map { "\($0.value) as \(quotedIdentifier($0.name))" }
        let keys = Self.list(definition.keys.map(\.name))
        return [
            """
            create view \(view) with (security_invoker = true) as
            select \(columns.joined(separator: ", ")) from \(qualifiedName)
            window record as (partition by \(keys) order by "_seq")
            """
        ]
    }

    /// The comments on the view and its columns.
    var versionsCommentSQL: [String] {
        guard let view = versionsView else { return [] }
        return ["comment on view \(view) is \(Self.comment(definition.comment))"]
            + viewColumns.map {
                "comment on column \(view).\(quotedIdentifier($0.name)) is \(Self.comment($0.comment))"
            }
    }

    /// The columns that readers find in the table and in the view, with their types.
    var readTypes: [(String, String)] {
        let own = columns.map { ($0.name, $0.sqlType) }
        guard definition.isHistory else { return own }
        return own + definition.columns.map { ($0.name, $0.type.sql) }
            + (definition.rest.map { [($0.name, "jsonb")] } ?? [])
    }

    private var viewColumns: [ViewColumn] {
        let keys = columns.filter(\.isKey).map {
            ViewColumn(name: $0.name, value: quotedIdentifier($0.name), comment: $0.comment)
        }
        let values = definition.columns.map {
            ViewColumn(name: $0.name, value: Self.member($0.name, $0.type), comment: $0.comment)
        }
        let rest = definition.rest.map {
            [ViewColumn(name: $0.name, value: Self.member($0.name, .jsonb), comment: $0.comment ?? Self.restComment)]
        }
        return keys + values + (rest ?? []) + Self.ownViewColumns
    }

    private static let ownViewColumns: [ViewColumn] =
        [
            ViewColumn(
                name: MirrorDefinition.seqColumn, value: "\"_seq\"", comment: "The log entry that wrote this version."),
            ViewColumn(name: "_valid_from", value: "\"_at\"", comment: "When the log entry was committed."),
            ViewColumn(
                name: "_valid_to", value: "lead(\"_at\") over record",
                comment: "When the next version began; null for the current version."),
            ViewColumn(
                name: "_current", value: "lead(\"_seq\") over record is null",
                comment: "Whether this version is current."),
            ViewColumn(name: "_deleted", value: "\"_new\" is null", comment: "Whether the record was removed."),
        ]
        + (authorColumns + [conversionErrors]).map {
            ViewColumn(name: $0.name, value: quotedIdentifier($0.name), comment: $0.comment)
        }

    /// Returns SQL for a member of the row after a change, as a column's type.
    private static func member(_ name: String, _ type: ColumnType) -> String {
        let key = literal(name)
        let text = "(\"_new\" ->> \(key))"
        let value = "(\"_new\" -> \(key))"
        return switch type {
        case .text: text
        case .jsonb: "nullif(\(value), 'null')"
        case .textArray:
            "case when jsonb_typeof\(value) = 'array' then array(select jsonb_array_elements_text\(value)) end"
        case .bigint, .double, .numeric, .boolean, .timestamp, .date, .uuid: "\(text)::\(type.sql)"
        }
    }
}

/// The additional columns of tables with a history.
extension MirrorTable {
    static let deletedAt = own(
        MirrorDefinition.deletedAtColumn, "timestamptz", .timestamptz, "When the record was removed.")

    private static func own(
        _ name: String, _ type: String, _ carrier: PostgresType, isNotNull: Bool = false, _ comment: String
    ) -> Column {
        Column(name: name, sqlType: type, carrier: carrier, isNotNull: isNotNull, comment: comment, isKey: false)
    }

    static let authorColumns = [
        own("_uid", "text", .text, "The uid of the user that made the change."),
        own("_admin", "boolean", .bool, "Whether the change bypassed the rules."),
        own("_via", "text", .text, "The transport: rest, ws, cli, sql."),
    ]

    static let conversionErrors = own(
        MirrorDefinition.conversionErrorsColumn, "text[]", .text, "Columns whose values could not be converted.")

    /// The columns after the keys of a table of changes.
    static let changeColumns: [Column] =
        [
            own(
                MirrorDefinition.seqColumn, "bigint", .int8, isNotNull: true,
                "The log entry that made the change."),
            own("_at", "timestamptz", .timestamptz, "When the log entry was committed."),
            own(
                "_operation", "text", .text, isNotNull: true,
                "insert, update or delete; begin: the row at the beginning of the history."),
        ] + authorColumns + [
            own("_old", "jsonb", .jsonb, "The row before the change."),
            own("_new", "jsonb", .jsonb, "The row after the change."),
            conversionErrors,
        ]

    /// Creates the index that finds the changes after an entry, for incremental readers.
    var seqIndexSQL: [String] {
        guard definition.isHistory else { return [] }
        let name = quotedIdentifier(seqIndexName(of: name))
        return ["create index \(name) on \(qualifiedName) (\(quotedIdentifier(MirrorDefinition.seqColumn)))"]
    }

    func seqIndexName(of table: String) -> String { RelationName.joined([table, "_by_seq"]) }

    /// Returns the names of the indexes of a table with this name, in an order that depends only on the definition.
    func indexNames(of table: String) -> [String] {
        var names = [keyName(of: table)] + definition.indexes.map { indexName($0, of: table) }
        if definition.isHistory { names.append(seqIndexName(of: table)) }
        return names
    }

    /// The columns of the parameters of `markDeleted`.
    var markColumns: [Column] {
        columns.filter(\.isKey) + [
            Self.own("seq", "bigint", .int8, ""), Self.own("at", "timestamptz", .timestamptz, ""),
        ]
    }

    /// Marks rows that stay although their records were removed.
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
