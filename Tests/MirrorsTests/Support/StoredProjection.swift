import LogStore
import Mirrors
import Postgres
import TestSupport
import Tree

/// The actual content of a mirror's table, and the tree of the log at the mirror's cursor, from one consistent read.
struct StoredProjection {
    let definition: MirrorDefinition
    let seq: Int64
    var rows: [[Key]: PlainProjection.Row] = [:]
    var errors: Set<[Key]> = []
    let root: Node

    /// - Parameter trees: The trees of the mirror's namespace.
    init?(_ log: LogConnection, _ mirror: CatalogMirror, _ trees: LogTrees = LogTrees()) throws {
        try log.sql.executeScript(
            "begin isolation level repeatable read read only; set local timezone = 'UTC'")
        defer { try? log.sql.executeScript("rollback") }
        try self.init(inSnapshotOf: log, mirror, trees)
    }

    /// Reads within the open transaction.
    init?(inSnapshotOf log: LogConnection, _ mirror: CatalogMirror, _ trees: LogTrees = LogTrees()) throws {
        guard let cursor = try MirrorCursor.of([mirror.id], in: mirror.namespaceID, log.sql).first else {
            return nil
        }
        definition = cursor.definition
        seq = cursor.seq
        root = try trees.tree(log, mirror.namespaceID, at: seq)
        try readRows(log.sql)
        let found = try log.sql.execute(
            "select record, column_name from pathmirror.mirror_error where mirror = $1 and generation = $2",
            [.uuid(mirror.id), .int8(cursor.generation)])
        for row in 0..<found.rowCount { errors.insert([Key(try found.string(row, 0)), Key(try found.string(row, 1))]) }
    }

    private mutating func readRows(_ connection: PostgresConnection) throws {
        let expressions =
            definition.keys.map { "\(quotedIdentifier($0.name))::text" } + ColumnText.ofTable(definition)
        let rows = try connection.execute(
            """
            select \(expressions.joined(separator: ", "))
            from \(quotedIdentifier(definition.schema)).\(quotedIdentifier(definition.table)) \(condition)
            """)
        for index in 0..<rows.rowCount {
            let keys = try definition.keys.indices.map { Key(try rows.string(index, $0)) }
            self.rows[keys] = try ColumnText.row(definition, rows, index, from: keys.count)
        }
    }

    /// The condition for rows of present records.
    private var condition: String {
        switch definition.keeps {
        case .latest: "where _deleted_at is null"
        case nil, .changes: ""
        }
    }

    /// The first difference from the expected content, or nil if there is none.
    var difference: String? {
        let wanted = PlainProjection(definition, root)
        let context = "mirror \(definition.name) (\(definition.pattern)) at seq \(seq)"
        for (keys, row) in wanted.rows {
            guard let found = rows[keys] else { return "\(context): no row \(keys), wanted \(row)" }
            if found != row { return "\(context): row \(keys) is \(found), wanted \(row)" }
        }
        for keys in rows.keys where wanted.rows[keys] == nil { return "\(context): row \(keys) should not be there" }
        if definition.keeps == nil, errors != wanted.errors {
            return "\(context): errors differ: \(errors.symmetricDifference(wanted.errors))"
        }
        return nil
    }
}
