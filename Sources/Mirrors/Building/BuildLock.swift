import LogStore
import Postgres

/// Who makes a mirror's table anew, or changes it, does so alone: an advisory lock in the table's database.
enum BuildLock {
    enum Duration: String {
        /// Until it is released, or the session ends.
        case untilReleased = "pg_try_advisory_lock"
        case untilTheTransactionEnds = "pg_try_advisory_xact_lock"
    }

    /// False where somebody else has it.
    static func holds(
        _ mirror: [UInt8], _ target: PostgresConnection, _ duration: Duration
    ) throws(PostgresError) -> Bool {
        try target.execute(
            "select \(duration.rawValue)(hashtextextended($1, 0))", [.text(name(mirror))]
        ).bool(0, 0)
    }

    /// Lets others have it.
    static func release(_ mirror: [UInt8], _ target: PostgresConnection) {
        guard target.isOpen else { return }
        _ = try? target.execute("select pg_advisory_unlock(hashtextextended($1, 0))", [.text(name(mirror))])
    }

    /// What is said where somebody else has it.
    static func refusal(_ mirror: String) -> MirrorError {
        .refused("Mirror \"\(mirror)\" is being built by somebody else: try again when they are done, or stop them.")
    }

    /// What is said where a mirror is not in the catalog any more.
    static func goneRefusal(_ mirror: String) -> MirrorError {
        .refused("Mirror \"\(mirror)\" was removed by somebody else meanwhile: apply its definition again.")
    }

    private static func name(_ mirror: [UInt8]) -> String { "pathmirror build \(Leftovers.shadowName(mirror))" }
}

extension LogConnection {
    /// Whoever has the lock to build a mirror makes sure that nobody has removed it before.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` where somebody has.
    func checkIsThere(_ mirror: CatalogMirror) throws {
        guard try catalogMirrors().contains(where: { $0.id == mirror.id }) else {
            throw BuildLock.goneRefusal(mirror.name)
        }
    }
}

/// What builds leave behind that were killed: tables that never took a mirror's place.
enum Leftovers {
    /// What the names of tables and indexes begin with that are being made.
    static let prefix = "_build_"

    /// The name of the table that a mirror's build fills.
    static func shadowName(_ mirror: [UInt8]) -> String {
        prefix + mirror.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Where a mirror's half-made tables are, as qualified names: a definition may have changed its schema meanwhile. Builds of earlier
    /// versions have left partitioned tables, too.
    static func find(of mirror: [UInt8], _ target: PostgresConnection) throws -> [String] {
        let rows = try target.execute(
            """
            select format('%I.%I', nspname, relname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
            where relname = $1 and relkind in ('r', 'p')
            """, [.text(shadowName(mirror))])
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }

    /// Drops them; true when there were some. Nobody may be building the mirror.
    static func remove(of mirror: [UInt8], _ target: PostgresConnection) throws -> Bool {
        let found = try find(of: mirror, target)
        for name in found { try target.executeScript(dropSQL(name)) }
        return !found.isEmpty
    }

    /// Drops a half-made table with its view of versions: nothing else depends on it.
    static func dropSQL(_ name: String) -> String { "drop table if exists \(name) cascade" }
}
