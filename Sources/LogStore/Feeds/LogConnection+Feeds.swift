import Postgres
import Runtime

/// The catalog of feeds.
extension LogConnection {
    /// The channel on which changes of feeds are announced.
    static let feedChannel = "pathmirror_feed"

    /// Returns all feeds, or the feeds of one namespace, ordered by namespace and name.
    ///
    /// - Parameters:
    ///   - name: limits the result to the feed of this name.
    ///   - definitions: whether to read the definitions. They are empty otherwise.
    public func feeds(of namespace: Int64? = nil, named name: String? = nil, definitions: Bool = true)
        throws(LogStoreError) -> [FeedRecord]
    {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select feed.namespace_id, feed.id, feed.name,
                    case when $2 then feed.definition::text else '' end, feed.revision,
                    owner.worker, worker.id is not null, owner.generation, feed.uid::text,
                    floor(extract(epoch from feed.created_at))::bigint, worker.peer_address, worker.peer_key,
                    worker.peer_pin
                from pathmirror.feed
                join pathmirror.feed_owner as owner on owner.namespace_id = feed.namespace_id and owner.feed = feed.id
                left join pathmirror.feed_worker as worker on worker.id = owner.worker
                where ($1::bigint is null or feed.namespace_id = $1) and ($3::text is null or feed.name = $3)
                    -- Feeds of copies are nobody's until they live.
                    and not exists (
                        select from pathmirror.namespace_copy as copy
                        where copy.namespace_id = feed.namespace_id and copy.is_dormant)
                order by feed.namespace_id, feed.name
                """,
                [
                    namespace.map { .int8($0) } ?? .null(.int8), .bool(definitions),
                    name.map { .text($0) } ?? .null(.text),
                ])
            var records: [FeedRecord] = []
            for row in 0..<rows.rowCount {
                let namespace = try rows.int64(row, 0)
                let known = try namespaceName(namespace)
                // Hidden namespaces have no worker.
                guard !NamespaceCopy.isHidden(known) else { continue }
                records.append(
                    FeedRecord(
                        namespaceID: namespace, namespace: known,
                        id: try rows.int64(row, 1), name: try rows.string(row, 2), uid: try rows.string(row, 8),
                        createdAt: try rows.int64(row, 9), definition: try rows.bytes(row, 3),
                        revision: try rows.int64(row, 4),
                        worker: rows.isNull(row, 5) ? nil : try rows.bytes(row, 5),
                        isWorkerAlive: try rows.bool(row, 6),
                        reach: rows.isNull(row, 10) || rows.isNull(row, 11)
                            ? nil
                            : FeedWorkerReach(
                                address: try rows.string(row, 10), key: Secret(try rows.bytes(row, 11)),
                                pin: rows.isNull(row, 12) ? nil : try rows.bytes(row, 12)),
                        generation: try rows.int64(row, 7)))
            }
            return records
        }
    }

    /// Returns the name of a namespace, which never changes once the namespace is live. The name is read once and
    /// cached: finding the row by id visits every row version that an open snapshot may still see, and each commit adds
    /// one.
    private func namespaceName(_ id: Int64) throws(PostgresError) -> String {
        if let known = namespaceNames[id] { return known }
        let rows = try postgres.execute("select name from pathmirror.namespace where id = $1", [.int8(id)])
        guard rows.rowCount == 1 else { return "" }
        let name = try rows.string(0, 0)
        // The row may be of a copy that went live between the two queries. Its final name is read from the next call
        // on.
        if !NamespaceCopy.isHidden(name) { namespaceNames[id] = name }
        return name
    }

    /// Returns a feed's definition including its secrets, or nil if the feed does not exist.
    public func feedDefinition(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> [UInt8]? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select definition::text from pathmirror.feed where namespace_id = $1 and id = $2",
                [.int8(namespace), .int8(feed)])
            return rows.rowCount == 1 ? try rows.bytes(0, 0) : nil
        }
    }

    /// Adds a feed that starts at the position `progress`, and announces it. Returns nil if another feed already has
    /// the name.
    ///
    /// - Throws: `misplaced` if the namespace has left this database, like all functions that change feeds.
    public func addFeed(
        _ namespace: Int64, name: String, definition: [UInt8], at progress: FeedProgressRecord
    ) throws(LogStoreError) -> Int64? {
        try mayBeMisplaced { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .text(name)]
            parameters.appendJSON(definition)
            parameters.appendInt8(progress.seq)
            if let seq = progress.snapshotSeq { parameters.appendInt8(seq) } else { parameters.appendNull(.int8) }
            if let batch = progress.readTo.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
            let made = PipelineStep.query(
                """
                with made as (
                    insert into pathmirror.feed (namespace_id, name, definition)
                    values ($1, $2, $3) on conflict (namespace_id, name) do nothing returning id
                ), placed as (
                    insert into pathmirror.feed_progress (namespace_id, feed, seq, handed_to, read_to, snapshot_seq, batch)
                    select $1, id, $4, $4, $4, $5, $6 from made
                ), owned as (
                    insert into pathmirror.feed_owner (namespace_id, feed) select $1, id from made
                )
                select id, pg_notify('\(Self.feedChannel)', '') from made
                """, parameters)
            let rows = try holding(namespace, [made])[0]
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
    }

    /// Stores a new definition of a feed, and announces it. The worker restarts from the stored progress under a later
    /// generation than the returned one.
    ///
    /// - Parameters:
    ///   - keepsDone: whether messages keep their numbers, so that messages finished after the feed's position stay
    ///     finished. Otherwise the feed forgets the messages in delivery and those that wait for another delivery; dead
    ///     letters stay.
    ///   - stopsKeys: whether dead letters stop their keys from now on. Otherwise blocked messages are scheduled for
    ///     delivery.
    public func redefineFeed(
        _ namespace: Int64, _ feed: Int64, definition: [UInt8], keepsDone: Bool, stopsKeys: Bool
    ) throws(LogStoreError) -> Int64 {
        try mayBeMisplaced { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .int8(feed)]
            parameters.appendJSON(definition)
            parameters.appendBool(keepsDone)
            parameters.appendBool(stopsKeys)
            let change = PipelineStep.query(
                """
                with changed as (
                    update pathmirror.feed
                    set definition = $3, revision = revision + 1, updated_at = clock_timestamp()
                    where namespace_id = $1 and id = $2
                ), moved as (
                    update pathmirror.feed_progress
                    set generation = generation + 1, done = case when $4 then done end,
                        index = case when $4 then index else 0 end, handed_to = case when $4 then handed_to else seq end
                    where namespace_id = $1 and feed = $2 returning generation
                ), owned as (
                    update pathmirror.feed_owner set generation = moved.generation
                    from moved where namespace_id = $1 and feed = $2
                ), forgotten as (
                    delete from pathmirror.feed_message
                    where namespace_id = $1 and feed = $2 and not $4 and state <> 'dead'
                ), freed as (
                    update pathmirror.feed_message set state = 'retry', attempts = 0
                    where namespace_id = $1 and feed = $2 and $4 and not $5 and state = 'blocked'
                )
                select generation, pg_notify('\(Self.feedChannel)', '') from moved
                """, parameters)
            let rows = try holding(namespace, [change])[0]
            return rows.rowCount == 1 ? try rows.int64(0, 0) : 0
        }
    }

    /// Removes a feed with all its stored state, and announces the removal. Returns false if the feed does not exist.
    public func removeFeed(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> Bool {
        try mayBeMisplaced { () throws(PostgresError) in
            let parameters: PostgresParameters = [.int8(namespace), .int8(feed)]
            let results = try holding(
                namespace,
                [
                    .query("delete from pathmirror.feed_progress where namespace_id = $1 and feed = $2", parameters),
                    .query("delete from pathmirror.feed_owner where namespace_id = $1 and feed = $2", parameters),
                    .query("delete from pathmirror.feed_message where namespace_id = $1 and feed = $2", parameters),
                    .query("delete from pathmirror.feed where namespace_id = $1 and id = $2", parameters),
                    .query("select pg_notify('\(Self.feedChannel)', '')"),
                ])
            return results[3].affectedRows == 1
        }
    }

    /// Moves a feed to another position, from which everything is delivered again, and announces the change.
    /// Acknowledgements under the former generation are rejected. Returns the generation that precedes the worker's
    /// next.
    public func seekFeed(
        _ namespace: Int64, _ feed: Int64, to progress: FeedProgressRecord
    ) throws(LogStoreError) -> Int64 {
        try mayBeMisplaced { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .int8(feed), .int8(progress.seq)]
            if let seq = progress.snapshotSeq { parameters.appendInt8(seq) } else { parameters.appendNull(.int8) }
            if let batch = progress.readTo.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
            let results = try holding(
                namespace,
                [
                    .query(
                        """
                        with moved as (
                            update pathmirror.feed_progress
                            set generation = generation + 1, seq = $3, index = 0, snapshot_seq = $4, done = null,
                                handed_to = $3, read_to = $3, batch = $5, moved_at = clock_timestamp()
                            where namespace_id = $1 and feed = $2 returning generation
                        ), owned as (
                            update pathmirror.feed_owner set generation = moved.generation
                            from moved where namespace_id = $1 and feed = $2
                        )
                        select generation from moved
                        """, parameters),
                    // Messages after the position are read from the log again, regardless of their state.
                    .query(
                        """
                        delete from pathmirror.feed_message
                        where namespace_id = $1 and feed = $2 and (state = 'failing' or seq > $3)
                        """, [.int8(namespace), .int8(feed), .int8(progress.seq)]),
                    .query("select pg_notify('\(Self.feedChannel)', '')"),
                ])
            return results[0].rowCount == 1 ? try results[0].int64(0, 0) : 0
        }
    }
}
