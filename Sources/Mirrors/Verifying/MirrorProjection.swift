public import LogStore
import Postgres
public import Tree

/// A mirror's table for `log verify`, which compares it with the tree at the mirror's cursor, on one snapshot of table and
/// cursor.
///
/// Belongs to one thread, which it blocks. The table can't be swapped until the verification's transaction ends.
public final class MirrorProjection: VerifiableProjection {
    public var name: String { "mirror \(mirror.name)" }

    private let mirror: CatalogMirror
    /// For a table in another database: a connection whose snapshot was taken before the verification's own, so that the cursor
    /// can't be ahead of the tree.
    private let elsewhere: PostgresConnection?
    private var active: ActiveMirror?
    private var isThere = true

    private init(_ mirror: CatalogMirror, elsewhere: PostgresConnection?) {
        self.mirror = mirror
        self.elsewhere = elsewhere
    }

    /// A namespace's mirrors, and the obstacles to their verification.
    public struct Found {
        public let projections: [MirrorProjection]
        /// Sentences about mirrors that can't be verified, for example because their databases can't be reached.
        public let problems: [String]
        /// The names of mirrors without a table.
        public let unbuilt: [String]
    }

    /// Returns the namespace's mirrors. Each of those in other databases has a connection until `close`.
    ///
    /// - Parameter log: a connection outside of a transaction.
    public static func all(
        of namespace: NamespaceRecord, _ log: LogConnection, _ connector: TargetConnector
    ) throws -> Found {
        var projections: [MirrorProjection] = []
        var problems: [String] = []
        var unbuilt: [String] = []
        for mirror in try log.catalogMirrors() where mirror.namespaceID == namespace.id {
            do {
                let elsewhere = try mirror.target.map { try connector.connect($0, as: "log verify") }
                try elsewhere?.executeScript("begin isolation level repeatable read read only")
                let cursor = try MirrorCursor.of(mirror, elsewhere ?? log.forOtherTables)
                if let mistake = cursor?.definition.mistake {
                    elsewhere?.close()
                    problems.append("mirror \(mirror.name) can't be verified: its definition can't be used: \(mistake)")
                } else if cursor == nil {
                    elsewhere?.close()
                    unbuilt.append(mirror.name)
                } else {
                    projections.append(MirrorProjection(mirror, elsewhere: elsewhere))
                }
            } catch {
                guard mirror.target != nil, log.isOpen else { throw error }
                problems.append("mirror \(mirror.name) can't be verified: \(MirrorError(error))")
            }
        }
        return Found(projections: projections, problems: problems, unbuilt: unbuilt)
    }

    /// Closes the connection to another database, if one was opened.
    public func close() { elsewhere?.close() }

    /// - Throws: `MirrorError.moved` if the table has just been replaced. The caller must begin the verification again.
    public func cursor(_ log: LogConnection) throws -> Int64? {
        let connection = elsewhere ?? log.forOtherTables
        guard let cursor = try MirrorCursor.of(mirror, connection) else { return nil }
        let active = ActiveMirror(mirror, cursor)
        self.active = active
        isThere = try lock(active.table, connection)
        return cursor.seq
    }

    /// Locks the table against replacement, after which this snapshot would see it empty. Returns false if there is no table.
    private func lock(_ table: MirrorTable, _ connection: PostgresConnection) throws -> Bool {
        try connection.executeScript("savepoint mirror_lock")
        do {
            try connection.executeScript("lock table \(table.qualifiedName) in access share mode")
        } catch {
            guard ["42P01", "3F000"].contains(error.sqlState) else { throw error }
            try connection.executeScript("rollback to savepoint mirror_lock")
            return false
        }
        // The name is resolved now, but the catalog's rows are those of the snapshot. They differ if the table is newer than
        // the snapshot.
        let isTheSnapshots = try connection.execute(
            """
            select exists (
                select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
                where pg_class.oid = to_regclass($1) and nspname = $2 and relname = $3)
            """, [.text(table.qualifiedName), .text(table.schema), .text(table.name)]
        ).bool(0, 0)
        guard isTheSnapshots else { throw MirrorError.moved }
        return true
    }

    /// Compares the table with the projection of the tree. Returns a line for each difference, up to a limit.
    public func compare(with root: Node, at seq: Int64, _ log: LogConnection) throws -> [String] {
        guard let active else { return [] }
        guard isThere else { return ["its table \(active.definition.tableName) does not exist"] }
        let connection = elsewhere ?? log.forOtherTables
        // Connections that write mirrors have this setting, too. This session belongs to the caller.
        try connection.executeScript("set local plan_cache_mode = force_custom_plan; savepoint mirror_compare")
        do {
            let (found, count) = try differences(active, connection, root)
            return count > TableComparison.maxShown ? found + ["\(count) differences in all"] : found
        } catch let error as PostgresError where error.sqlState != nil && !error.endsConnection {
            // A column may have been changed or removed, for example.
            try connection.executeScript("rollback to savepoint mirror_compare")
            return ["its table \(active.definition.tableName) can't be compared: \(error)"]
        }
    }

    private func differences(
        _ active: ActiveMirror, _ connection: PostgresConnection, _ root: Node
    ) throws -> ([String], Int) {
        let pattern = active.definition.pattern
        guard active.definition.keeps == nil else {
            let comparison = HistoryComparison(connection, active)
            try RecordWalk.each(pattern, in: root) { keys, record in try comparison.add(keys, record) }
            try comparison.finish()
            return (comparison.differences, comparison.differenceCount)
        }
        let comparison = TableComparison(connection, active)
        try RecordWalk.each(pattern, in: root) { keys, record in try comparison.add(keys, record) }
        try comparison.finish { some in some.map { root[pattern.path(of: $0)] } }
        return (comparison.differences, comparison.differenceCount)
    }
}
