import Postgres

/// The state of a feed, as reported by the view `pathmirror.feed_status`.
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
    /// The time for which the feed has held back pruning beyond its retention.
    public let holdsBackSeconds: Double
    /// The number of messages that wait for another delivery at an administrator's request.
    public let retrying: Int64
}

extension LogConnection {
    /// Drops the snapshots made for feeds that no feed needs any more. Each feed needs the newest snapshot at or before
    /// its position.
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

    /// Returns the log position of a feed, or 0 if the feed does not exist.
    public func feedSeq(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select seq from pathmirror.feed_progress where namespace_id = $1 and feed = $2",
                [.int8(namespace), .int8(feed)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : 0
        }
    }

    /// Returns the state of a feed, or nil if the feed does not exist.
    public func feedStatus(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> FeedStatusRecord? {
        try feedStatuses([feed])[feed]
    }

    /// Returns the states of feeds by their ids.
    public func feedStatuses(_ feeds: [Int64]) throws(LogStoreError) -> [Int64: FeedStatusRecord] {
        var ids = PostgresArray(of: .int8)
        for feed in feeds { ids.appendInt8(feed) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select state, seq, head, lag_entries, extract(epoch from coalesce(lag, interval '0'))::float8, pending, held,
                    delivered, acknowledged, redelivered, dead_letters, set_aside, message, gateway, holds_back_seconds, feed,
                    retrying
                from pathmirror.feed_status where feed = any($1)
                """, [.array(ids)])
            var statuses: [Int64: FeedStatusRecord] = [:]
            for row in 0..<rows.rowCount { statuses[try rows.int64(row, 15)] = try Self.status(rows, row) }
            return statuses
        }
    }

    private static func status(_ rows: PostgresResult, _ row: Int) throws(PostgresError) -> FeedStatusRecord {
        FeedStatusRecord(
            state: try rows.string(row, 0), seq: try rows.int64(row, 1), head: try rows.int64(row, 2),
            lagEntries: try rows.int64(row, 3), lagSeconds: try rows.double(row, 4), pending: try rows.int64(row, 5),
            held: try rows.int64(row, 6), delivered: try rows.int64(row, 7), acknowledged: try rows.int64(row, 8),
            redelivered: try rows.int64(row, 9), deadLetters: try rows.int64(row, 10),
            setAside: try rows.int64(row, 11), message: rows.isNull(row, 12) ? nil : try rows.string(row, 12),
            gateway: rows.isNull(row, 13) ? nil : try rows.string(row, 13),
            holdsBackSeconds: try rows.double(row, 14), retrying: try rows.int64(row, 16))
    }
}
