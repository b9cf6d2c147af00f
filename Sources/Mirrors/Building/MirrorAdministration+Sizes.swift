import Postgres

/// How large a mirror's table is.
public struct MirrorSize: Sendable, Equatable {
    public let rowCount: Int64
    /// Large tables are not counted: PostgreSQL's own estimate.
    public let isEstimate: Bool
    /// With its indexes and long values.
    public let byteCount: Int64
}

extension MirrorAdministration {
    /// The size of a mirror's table; nil where it has none yet, or its database can't be asked.
    public func size(of mirror: CatalogMirror) -> MirrorSize? {
        guard let target = try? connect(mirror) else { return nil }
        defer { target.close() }
        return try? size(of: mirror, target)
    }

    private func size(of mirror: CatalogMirror, _ target: PostgresConnection) throws -> MirrorSize? {
        let table = MirrorTable(mirror.definition, name: mirror.definition.table, label: "").qualifiedName
        let found = try target.execute(
            "select pg_total_relation_size(oid), reltuples::bigint from pg_class where oid = to_regclass($1)",
            [.text(table)])
        guard found.rowCount == 1 else { return nil }
        let byteCount = try found.int64(0, 0)
        let estimate = try found.int64(0, 1)
        guard byteCount <= Self.mostBytesToCount || estimate < 0 else {
            return MirrorSize(rowCount: estimate, isEstimate: true, byteCount: byteCount)
        }
        let rowCount = try target.execute("select count(*) from \(table)").int64(0, 0)
        return MirrorSize(rowCount: rowCount, isEstimate: false, byteCount: byteCount)
    }

    /// What is counted in a few milliseconds.
    private static let mostBytesToCount: Int64 = 16 << 20
}
