import LogStore
import Postgres

/// An advisory lock in the table's database. Builds and alterations of a mirror's table hold it, so that each runs alone.
enum BuildLock {
    enum Duration: String {
        /// Held until it is released, or until the session ends.
        case untilReleased = "pg_try_advisory_lock"
        case untilTheTransactionEnds = "pg_try_advisory_xact_lock"
    }

    /// Acquires the lock if it is free. Returns false if another session holds it.
    static func holds(
        _ mirror: [UInt8], _ target: PostgresConnection, _ duration: Duration
    ) throws(PostgresError) -> Bool {
        try target.execute(
            "select \(duration.rawValue)(hashtextextended($1, 0))", [.text(name(mirror))]
        ).bool(0, 0)
    }

    /// Releases the lock. Does nothing if the connection is closed.
    static func release(_ mirror: [UInt8], _ target: PostgresConnection) {
        guard target.isOpen else { return }
        _ = try? target.execute("select pg_advisory_unlock(hashtextextended($1, 0))", [.text(name(mirror))])
    }

    /// The error if another session holds the lock.
    static func refusal(_ mirror: String) -> MirrorError {
        .refused("Another process is building mirror \"\(mirror)\": stop that process, or try again when it has ended.")
    }

    /// The error if the mirror is no longer in the catalog.
    static func goneRefusal(_ mirror: String) -> MirrorError {
        .refused("Another process removed mirror \"\(mirror)\": apply its definition again.")
    }

    private static func name(_ mirror: [UInt8]) -> String { "pathmirror build \(AbandonedTables.shadowName(mirror))" }
}

extension LogConnection {
    /// Checks that the mirror is still in the catalog. Builders call this after they have acquired the lock.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` if the mirror was removed.
    func checkIsThere(_ mirror: CatalogMirror) throws {
        guard try catalogMirrors().contains(where: { $0.id == mirror.id }) else {
            throw BuildLock.goneRefusal(mirror.name)
        }
    }
}

/// Tables that were left by killed builds: they never replaced a mirror's table.
enum AbandonedTables {
    /// The prefix of the names of tables and indexes under construction.
    static let prefix = "_build_"

    /// The name of the table that a mirror's build fills.
    static func shadowName(_ mirror: [UInt8]) -> String {
        prefix + mirror.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Returns the qualified names of a mirror's unfinished tables. All schemas are searched, because the definition's schema
    /// may have changed since. Builds of earlier versions also left partitioned tables.
    static func find(of mirror: [UInt8], _ target: PostgresConnection) throws -> [String] {
        let rows = try target.execute(
            """
            select format('%I.%I', nspname, relname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
            where relname = $1 and relkind in ('r', 'p')
            """, [.text(shadowName(mirror))])
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }

    /// Drops a mirror's unfinished tables. Returns true if there were any. No build of the mirror may be in progress.
    static func remove(of mirror: [UInt8], _ target: PostgresConnection) throws -> Bool {
        let found = try find(of: mirror, target)
        for name in found { try target.executeScript(dropSQL(name)) }
        return !found.isEmpty
    }

    /// Returns the SQL that drops an unfinished table with its view of versions. Nothing else depends on such a table.
    static func dropSQL(_ name: String) -> String { "drop table if exists \(name) cascade" }
}
