import Postgres
public import Tree

/// Finds the entries that wrote at, above or below a path, newest first.
public struct Blame: Sendable {
    public struct Line: Sendable {
        public let entry: Entry
        /// The entry's changes at, below or above the path. A value is null if the entry removed it.
        public let changes: [Change]
        /// Whether the entry wrote part of the current data.
        public let isCurrent: Bool
    }

    private static let page: Int64 = 20_000

    /// Calls `body` for each entry until it returns false or the beginning of the log is reached. Holds one entry in
    /// memory, or one part of a bulk entry.
    ///
    /// - Parameters:
    ///   - first: the oldest entry to examine, or nil for the beginning of the log.
    ///   - last: the newest entry to examine, or nil for the head.
    ///   - looked: called with the seq before which the search continues.
    public static func run(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ path: Path, from first: Int64? = nil,
        to last: Int64? = nil, looked: (Int64) -> Void = { _ in }, _ body: (Line) throws -> Bool
    ) throws {
        let first = max(namespace.retainedFrom, first ?? 0)
        let current = try versions(connection, namespace.id, path)
        var before = min(namespace.head, last ?? .max) + 1
        while before > first {
            looked(before)
            let after = max(first - 1, before - 1 - page)
            for seq in try touching(connection, namespace.id, path, after: after, before: before) {
                guard let entry = try connection.entry(namespace.id, seq)?.entry else { continue }
                var changes = entry.changes.compactMap { $0.narrowed(to: path) }
                if entry.isBulk {
                    try connection.forEachPart(namespace.id, of: seq) { (part) throws(LogStoreError) in
                        // A sample is enough: all changes may be millions.
                        guard changes.count < 100 else { return }
                        changes.append(contentsOf: part.compactMap { $0.narrowed(to: path) })
                    }
                }
                guard !changes.isEmpty else { continue }
                let line = Line(entry: entry, changes: changes, isCurrent: current.contains(seq))
                guard try body(line) else { return }
            }
            before = after + 1
        }
    }

    /// Returns the seqs of one page that touch the path, newest first.
    private static func touching(
        _ connection: LogConnection, _ namespace: Int64, _ path: Path, after: Int64, before: Int64
    ) throws -> [Int64] {
        let rows = try connection.postgres.execute(
            """
            select seq from pathmirror.log
            where namespace_id = $1 and seq > $2 and seq < $3 and (
                exists (
                    select from pathmirror.each_change(log.changes) as change (place)
                    where place = $4 or place = '/' or $4 = '/' or starts_with(place, $4 || '/') or starts_with($4, place || '/'))
                or (parts > 0 and exists (
                    select from pathmirror.log_part as part
                    cross join lateral pathmirror.each_change(part.changes) as change (place)
                    where part.namespace_id = $1 and part.seq = log.seq
                        and (place = $4 or $4 = '/' or starts_with(place, $4 || '/') or starts_with($4, place || '/')))))
            order by seq desc
            """, [.int8(namespace), .int8(after), .int8(before), .text(path.description)])
        return try (0..<rows.rowCount).map { try rows.int64($0, 0) }
    }

    /// Returns the seqs of the entries that wrote the current data at and below the path.
    private static func versions(_ connection: LogConnection, _ namespace: Int64, _ path: Path) throws -> Set<Int64> {
        let rows = try connection.postgres.execute(
            """
            select pathmirror.version_seq(version) from (
            select distinct node.version
            from pathmirror.node cross join lateral pathmirror.node_range($2) as bounds
            where node.namespace_id = $1
                and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
                and (bounds.beginning is null or node.path = bounds.own_key
                    or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
            ) as written where pathmirror.version_seq(version) is not null
            """, [.int8(namespace), .text(path.isRoot ? "" : path.description)])
        return Set(try (0..<rows.rowCount).map { try rows.int64($0, 0) })
    }
}
