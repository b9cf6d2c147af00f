import LogStore
import Postgres
import Tree

/// A value that did not fit, as the database keeps it.
public struct StoredConversionError: Sendable {
    /// Empty for a whole row.
    public let column: String
    public let record: String
    public let path: String
    public let seq: Int64
    /// JSON, cut where it is long.
    public let value: String?
    public let reason: String
    /// Milliseconds since 1970.
    public let foundAt: Int64
}

/// A mirror as `pathmirror.mirror_status` shows it.
public struct MirrorStatus: Sendable {
    public let namespace: String
    public let name: String
    public let table: String
    public let isElsewhere: Bool
    public let state: String
    public let seq: Int64?
    public let head: Int64
    public let lagEntries: Int64?
    public let lagMilliseconds: Int64?
    public let errors: Int64
    /// Errors that were found and, as there were too many, not kept since the table was made.
    public let unkeptErrors: Int64
    public let message: String?
    public let gateway: String?
}

extension MirrorAdministration {
    /// All mirrors' states.
    public func statuses() throws -> [MirrorStatus] {
        let rows = try source.postgres.execute(
            """
            select namespace, name, table_name, is_elsewhere, state, seq, head, lag_entries,
                (extract(epoch from lag) * 1000)::bigint, errors, message, gateway, unkept_errors
            from pathmirror.mirror_status order by namespace, name
            """)
        return try (0..<rows.rowCount).map { row in
            let integer = { (column: Int) throws in rows.isNull(row, column) ? nil : try rows.int64(row, column) }
            let text = { (column: Int) throws in rows.isNull(row, column) ? nil : try rows.string(row, column) }
            return MirrorStatus(
                namespace: try rows.string(row, 0), name: try rows.string(row, 1), table: try rows.string(row, 2),
                isElsewhere: try rows.bool(row, 3), state: try rows.string(row, 4), seq: try integer(5),
                head: try rows.int64(row, 6), lagEntries: try integer(7), lagMilliseconds: try integer(8),
                errors: try rows.int64(row, 9), unkeptErrors: try rows.int64(row, 12), message: try text(10),
                gateway: try text(11))
        }
    }

    /// The values of a mirror that did not fit, by record, at most so many.
    public func misfits(_ mirror: CatalogMirror, limit: Int) throws -> [StoredConversionError] {
        let target = try connect(mirror)
        defer { target.close() }
        let rows = try target.execute(
            """
            select error.column_name, error.record, error.path, error.seq, error.value, error.reason,
                (extract(epoch from error.found_at) * 1000)::bigint
            from pathmirror.mirror_error as error
            join pathmirror.mirror_cursor as live using (namespace_id, mirror, generation)
            where error.namespace_id = $1 and error.mirror = $2 order by error.record, error.column_name limit $3
            """, [.int8(mirror.namespaceID), .uuid(mirror.id), .int8(Int64(limit))])
        return try (0..<rows.rowCount).map { row in
            StoredConversionError(
                column: try rows.string(row, 0), record: try rows.string(row, 1), path: try rows.string(row, 2),
                seq: try rows.int64(row, 3), value: rows.isNull(row, 4) ? nil : try rows.string(row, 4),
                reason: try rows.string(row, 5), foundAt: try rows.int64(row, 6))
        }
    }

    /// How many errors of a mirror were found and, as there were too many, not kept since its table was made.
    public func unkeptErrors(_ mirror: CatalogMirror) throws -> Int64 {
        let target = try connect(mirror)
        defer { target.close() }
        guard let cursor = try Catalog.cursors(target, mirror.namespaceID, [mirror.id]).first else { return 0 }
        return try ErrorLimit.unkept(target, ActiveMirror(mirror, cursor))
    }

    /// Reads the records again whose errors are kept. Returns how many there were, and how many errors are left.
    public func retryConversionErrors(_ mirror: CatalogMirror) throws -> (records: Int, left: Int) {
        let target = try connect(mirror)
        defer { target.close() }
        let moved = try moveAlone(mirror) { one, stepper, record in
            // Nobody else changes them while the cursor is held.
            let keys = try recordsWithErrors(one[0], target)
            one[0].isCareful = true
            return (keys.count, try stepper.advance(&one, in: record, .joined, rereading: keys))
        }
        return (moved.result, Int(try ErrorLimit.kept(target, moved.mirror)))
    }

    private func recordsWithErrors(_ mirror: ActiveMirror, _ target: PostgresConnection) throws -> [[Key]] {
        let rows = try target.execute(
            """
            select distinct record from pathmirror.mirror_error where namespace_id = $1 and mirror = $2 and generation = $3
            """, [.int8(mirror.namespace), .uuid(mirror.id), .int8(mirror.generation)])
        let parts = mirror.definition.pattern.parts
        return try (0..<rows.rowCount).compactMap { row in
            let path = Path(splitting: try rows.string(row, 0))
            guard path.depth == parts.count else { return nil }
            return zip(parts, path.keys).compactMap { part, key in
                if case .capture = part { key } else { nil }
            }
        }
    }
}
