import Postgres

/// Which feeds there are.
extension LogConnection {
    /// The channel on which changes of feeds are announced.
    static let feedChannel = "pathmirror_feed"

    /// All feeds, or one namespace's, by namespace and name.
    ///
    /// - Parameter definitions: whether their definitions are wanted; else these are empty.
    public func feeds(of namespace: Int64? = nil, definitions: Bool = true) throws(LogStoreError) -> [FeedRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select feed.namespace_id, namespace.name, feed.id, feed.name,
                    case when $2 then feed.definition::text else '' end, feed.revision,
                    progress.worker, worker.id is not null, worker.address, progress.generation
                from pathmirror.feed
                join pathmirror.namespace on namespace.id = feed.namespace_id
                join pathmirror.feed_progress as progress
                    on progress.namespace_id = feed.namespace_id and progress.feed = feed.id
                left join pathmirror.feed_worker as worker on worker.id = progress.worker
                where $1::bigint is null or feed.namespace_id = $1
                order by feed.namespace_id, feed.name
                """, [namespace.map { .int8($0) } ?? .null(.int8), .bool(definitions)])
            var records: [FeedRecord] = []
            for row in 0..<rows.rowCount {
                records.append(
                    FeedRecord(
                        namespaceID: try rows.int64(row, 0), namespace: try rows.string(row, 1),
                        id: try rows.int64(row, 2), name: try rows.string(row, 3), definition: try rows.bytes(row, 4),
                        revision: try rows.int64(row, 5),
                        worker: rows.isNull(row, 6) ? nil : try rows.bytes(row, 6),
                        isWorkerAlive: try rows.bool(row, 7),
                        address: rows.isNull(row, 8) ? nil : try rows.string(row, 8),
                        generation: try rows.int64(row, 9)))
            }
            return records
        }
    }

    /// A feed's definition, with its secrets; nil where it is gone.
    public func feedDefinition(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> [UInt8]? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select definition::text from pathmirror.feed where namespace_id = $1 and id = $2",
                [.int8(namespace), .int8(feed)])
            return rows.rowCount == 1 ? try rows.bytes(0, 0) : nil
        }
    }

    /// Adds a feed that begins at a place, and announces it. Nil where another has its name by now.
    public func addFeed(
        _ namespace: Int64, name: String, definition: [UInt8], at progress: FeedProgressRecord
    ) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .text(name)]
            parameters.appendJSON(definition)
            parameters.appendInt8(progress.seq)
            if let seq = progress.snapshotSeq { parameters.appendInt8(seq) } else { parameters.appendNull(.int8) }
            if let batch = progress.readTo.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
            let rows = try postgres.execute(
                """
                with made as (
                    insert into pathmirror.feed (namespace_id, name, definition)
                    values ($1, $2, $3) on conflict (namespace_id, name) do nothing returning id
                ), placed as (
                    insert into pathmirror.feed_progress (namespace_id, feed, seq, handed_to, read_to, snapshot_seq, batch)
                    select $1, id, $4, $4, $4, $5, $6 from made
                )
                select id, pg_notify('\(Self.feedChannel)', '') from made
                """, parameters)
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
    }

    /// Notes the definition that a feed has from now on, and announces it. Its worker begins anew, from what is kept, under a later
    /// generation than the one that is returned.
    ///
    /// - Parameter keepsDone: whether messages keep their numbers, so that what is done behind the place stays done.
    public func redefineFeed(
        _ namespace: Int64, _ feed: Int64, definition: [UInt8], keepsDone: Bool
    ) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .int8(feed)]
            parameters.appendJSON(definition)
            parameters.appendBool(keepsDone)
            let rows = try postgres.execute(
                """
                with changed as (
                    update pathmirror.feed
                    set definition = $3, revision = revision + 1, updated_at = clock_timestamp()
                    where namespace_id = $1 and id = $2
                ), moved as (
                    update pathmirror.feed_progress
                    set generation = generation + 1, done = case when $4 then done end,
                        index = case when $4 then index else 0 end
                    where namespace_id = $1 and feed = $2 returning generation
                )
                select generation, pg_notify('\(Self.feedChannel)', '') from moved
                """, parameters)
            return rows.rowCount == 1 ? try rows.int64(0, 0) : 0
        }
    }

    /// Removes a feed with all that is kept of it, and announces it. False where it was gone.
    public func removeFeed(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let parameters: PostgresParameters = [.int8(namespace), .int8(feed)]
            let results = try postgres.pipeline([
                .query("begin"),
                .query("delete from pathmirror.feed_progress where namespace_id = $1 and feed = $2", parameters),
                .query("delete from pathmirror.feed_message where namespace_id = $1 and feed = $2", parameters),
                .query("delete from pathmirror.feed where namespace_id = $1 and id = $2", parameters),
                .query("select pg_notify('\(Self.feedChannel)', '')"),
                .query("commit"),
            ])
            return results[3].affectedRows == 1
        }
    }

    /// Puts a feed at another place, from which everything is delivered again, and announces it. What is still out under the
    /// former generation is not taken any more; returns the one that is before the worker's next.
    public func seekFeed(
        _ namespace: Int64, _ feed: Int64, to progress: FeedProgressRecord
    ) throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .int8(feed), .int8(progress.seq)]
            if let seq = progress.snapshotSeq { parameters.appendInt8(seq) } else { parameters.appendNull(.int8) }
            if let batch = progress.readTo.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
            let results = try postgres.pipeline([
                .query("begin"),
                .query(
                    """
                    update pathmirror.feed_progress
                    set generation = generation + 1, seq = $3, index = 0, snapshot_seq = $4, done = null, handed_to = $3,
                        read_to = $3, batch = $5, moved_at = clock_timestamp()
                    where namespace_id = $1 and feed = $2 returning generation
                    """, parameters),
                .query(
                    "delete from pathmirror.feed_message where namespace_id = $1 and feed = $2 and state = 'failing'",
                    [.int8(namespace), .int8(feed)]),
                .query("select pg_notify('\(Self.feedChannel)', '')"),
                .query("commit"),
            ])
            return results[1].rowCount == 1 ? try results[1].int64(0, 0) : 0
        }
    }
}
