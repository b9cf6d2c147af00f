public import LogStore
import Postgres
public import Tree

/// A mirror's table as `log verify` compares it with the tree: at the mirror's cursor, on one snapshot of table and cursor.
///
/// Belongs to one thread, which it blocks. Its table can't be swapped until the verification's transaction ends.
public final class MirrorProjection: VerifiableProjection {
    public var name: String { "mirror \(mirror.name)" }

    private let mirror: CatalogMirror
    /// For a table in another database: a connection with a snapshot that was begun before the verification's own, so that
    /// the cursor can't be ahead of the tree.
    private let elsewhere: PostgresConnection?
    private var active: ActiveMirror?
    private var isThere = true

    private init(_ mirror: CatalogMirror, elsewhere: PostgresConnection?) {
        self.mirror = mirror
        self.elsewhere = elsewhere
    }

    /// What a namespace's mirrors have to be compared with, and what is in the way of it.
    public struct Found {
        public let projections: [MirrorProjection]
        /// Mirrors that can't be verified, as sentences: their databases are out of reach.
        public let problems: [String]
        /// Mirrors that have no table yet.
        public let unbuilt: [String]
    }

    /// The namespace's mirrors; those in other databases have a connection each until `close`.
    ///
    /// - Parameter session: outside of a transaction.
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

    /// Ends the connection to another database, if one was opened.
    public func close() { elsewhere?.close() }

    /// - Throws: `MirrorError.moved` when the table has just been replaced: begin the verification anew.
    public func cursor(_ log: LogConnection) throws -> Int64? {
        let connection = elsewhere ?? log.forOtherTables
        guard let cursor = try MirrorCursor.of(mirror, connection) else { return nil }
        let active = ActiveMirror(mirror, cursor)
        self.active = active
        isThere = try lock(active.table, connection)
        return cursor.seq
    }

    /// Keeps the table from being replaced, which would show it empty to this snapshot; false when there is none.
    private func lock(_ table: MirrorTable, _ connection: PostgresConnection) throws -> Bool {
        try connection.executeScript("savepoint mirror_lock")
        do {
            try connection.executeScript("lock table \(table.qualifiedName) in access share mode")
        } catch {
            guard ["42P01", "3F000"].contains(error.sqlState) else { throw error }
            try connection.executeScript("rollback to savepoint mirror_lock")
            return false
        }
        // The name is looked up now, the catalog's rows are of the snapshot: they differ when the table is a newer one.
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

    /// Compares the table with the projection of the tree; returns a line for each difference, up to a bound.
    public func compare(with root: Node, at seq: Int64, _ log: LogConnection) throws -> [String] {
        guard let active else { return [] }
        guard isThere else { return ["its table \(active.definition.tableName) is not there"] }
        let connection = elsewhere ?? log.forOtherTables
        // As for connections that write mirrors; here the session is somebody else's.
        try connection.executeScript("set local plan_cache_mode = force_custom_plan; savepoint mirror_compare")
        do {
            let (found, count) = try differences(active, connection, root)
            return count > TableComparison.maxShown ? found + ["\(count) differences in all"] : found
        } catch let error as PostgresError where error.sqlState != nil && !error.endsConnection {
            // A column that somebody has changed or removed, for one.
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
