import Postgres

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
