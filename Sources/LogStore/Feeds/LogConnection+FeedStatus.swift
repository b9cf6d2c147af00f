import Postgres

/// How a feed fares, as the view `pathmirror.feed_status` says.
public struct FeedStatusRecord: Sendable, Equatable {
    public let state: String
    public let seq: Int64
    public let head: Int64
    public let lagEntries: Int64
    public let lagSeconds: Double
    public let pending: Int64
    public let held: Int64
    public let delivered: Int64
    public let acknowledged: Int64
    public let redelivered: Int64
    public let deadLetters: Int64
    public let setAside: Int64
    public let message: String?
    public let gateway: String?
}

extension LogConnection {
    /// Drops the snapshots that were made for feeds and that none of them needs any more: each needs the newest before its place.
    public func dropFeedSnapshots(_ namespace: Int64) throws(LogStoreError) {
        let seqs = try translated { () throws(PostgresError) -> [Int64] in
            let rows = try postgres.execute(
                """
                select seq from pathmirror.snapshot as old
                where namespace_id = $1 and made_by = 'feed' and seq < (
                    select max(seq) from pathmirror.snapshot where namespace_id = $1 and seq <= (
                        select min(least(seq, snapshot_seq)) from pathmirror.feed_progress where namespace_id = $1))
                    and not exists (
                        select from pathmirror.feed_progress where namespace_id = $1 and snapshot_seq = old.seq)
                """, [.int8(namespace)])
            return try (0..<rows.rowCount).map { row throws(PostgresError) in try rows.int64(row, 0) }
        }
        for seq in seqs { _ = try? dropSnapshot(namespace, at: seq) }
    }

    /// Where a feed is.
    public func feedSeq(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select seq from pathmirror.feed_progress where namespace_id = $1 and feed = $2",
                [.int8(namespace), .int8(feed)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : 0
        }
    }

    /// How a feed fares; nil where it is gone.
    public func feedStatus(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> FeedStatusRecord? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select state, seq, head, lag_entries, extract(epoch from coalesce(lag, interval '0'))::float8, pending, held,
                    delivered, acknowledged, redelivered, dead_letters, set_aside, message, gateway
                from pathmirror.feed_status where namespace_id = $1 and feed = $2
                """, [.int8(namespace), .int8(feed)])
            guard rows.rowCount == 1 else { return nil }
            return FeedStatusRecord(
                state: try rows.string(0, 0), seq: try rows.int64(0, 1), head: try rows.int64(0, 2),
                lagEntries: try rows.int64(0, 3), lagSeconds: try rows.double(0, 4), pending: try rows.int64(0, 5),
                held: try rows.int64(0, 6), delivered: try rows.int64(0, 7), acknowledged: try rows.int64(0, 8),
                redelivered: try rows.int64(0, 9), deadLetters: try rows.int64(0, 10), setAside: try rows.int64(0, 11),
                message: rows.isNull(0, 12) ? nil : try rows.string(0, 12),
                gateway: rows.isNull(0, 13) ? nil : try rows.string(0, 13))
        }
    }
}
