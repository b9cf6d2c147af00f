import Postgres

/// Feeds and pruning: the feeds for which entries are kept, and the snapshots that pruning makes unnecessary.
extension LogConnection {
    /// Returns the feeds of the namespace that have held back pruning beyond their retention and whose definition
    /// prefers to lose entries.
    func feedsThatGiveUp(_ namespace: Int64) throws(LogStoreError) -> Set<String> {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select status.name from pathmirror.feed_status as status
                join pathmirror.feed on feed.namespace_id = status.namespace_id and feed.id = status.feed
                where status.namespace_id = $1 and status.holds_back_seconds > 0
                    and feed.definition ->> 'when_retention_ends' = 'drop'
                """, [.int8(namespace)])
            var names: Set<String> = []
            for row in 0..<rows.rowCount { names.insert(try rows.string(row, 0)) }
            return names
        }
    }

    /// Moves a feed that has not reached a position forward to it, and announces the change. The entries in between are
    /// never delivered. Returns their number, or nil if the feed had already reached the position.
    func skipFeed(
        _ namespace: Int64, named name: String, to position: LogPosition
    ) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                with former as (
                    select progress.feed, progress.seq from pathmirror.feed_progress as progress
                    join pathmirror.feed on feed.namespace_id = progress.namespace_id and feed.id = progress.feed
                    where progress.namespace_id = $1 and feed.name = $2 and progress.seq < $3
                    for update of progress
                ), moved as (
                    update pathmirror.feed_progress as progress
                    set generation = generation + 1, seq = $3, index = 0, snapshot_seq = null, done = null,
                        handed_to = greatest(handed_to, $3), read_to = $3, batch = $4, moved_at = clock_timestamp()
                    from former where progress.namespace_id = $1 and progress.feed = former.feed
                    returning progress.feed, progress.generation
                ), owned as (
                    update pathmirror.feed_owner as owner set generation = moved.generation
                    from moved where owner.namespace_id = $1 and owner.feed = moved.feed
                ), forgotten as (
                    delete from pathmirror.feed_message as letter using former
                    where letter.namespace_id = $1 and letter.feed = former.feed and letter.state = 'failing'
                        and letter.seq <= $3
                )
                select $3 - seq, pg_notify('\(Self.feedChannel)', '') from former
                """,
                [.int8(namespace), .text(name), .int8(position.seq), position.batch.map { .uuid($0) } ?? .null(.uuid)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
    }

    /// Drops the snapshots made for feeds that no feed needs any more. If the namespace has no feeds, snapshots younger
    /// than an hour stay, because a feed may be about to be created.
    func dropIdleFeedSnapshots(_ namespace: Int64, but kept: Int64) throws {
        // The snapshot from which the log now starts belongs to pruning, not to the feeds any more.
        _ = try postgres.execute(
            "update pathmirror.snapshot set made_by = 'prune' where namespace_id = $1 and seq = $2 and made_by = 'feed'",
            [.int8(namespace), .int8(kept)])
        try dropFeedSnapshots(namespace)
        let rows = try postgres.execute(
            """
            select seq from pathmirror.snapshot
            where namespace_id = $1 and made_by = 'feed' and created_at < now() - interval '1 hour'
                and not exists (select from pathmirror.feed_progress where namespace_id = $1)
            """, [.int8(namespace)])
        for row in 0..<rows.rowCount { _ = try dropSnapshot(namespace, at: try rows.int64(row, 0)) }
    }
}
