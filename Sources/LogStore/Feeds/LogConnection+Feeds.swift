import Postgres
import Runtime

/// Which feeds there are.
extension LogConnection {
    /// The channel on which changes of feeds are announced.
    static let feedChannel = "pathmirror_feed"

    /// All feeds, or one namespace's, by namespace and name.
    ///
    /// - Parameters:
    ///   - name: only the feed of this name.
    ///   - definitions: whether their definitions are wanted; else these are empty.
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
                // Nobody works what was put aside.
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

    /// A namespace's name, which never changes once it lives. It is looked up once: the row is found through all its versions that somebody's snapshot
    /// still sees, one for each commit.
    private func namespaceName(_ id: Int64) throws(PostgresError) -> String {
        if let known = namespaceNames[id] { return known }
        let rows = try postgres.execute("select name from pathmirror.namespace where id = $1", [.int8(id)])
        guard rows.rowCount == 1 else { return "" }
        let name = try rows.string(0, 0)
        // A copy that came to live between the two questions is seen by its own name from the next one on.
        if !NamespaceCopy.isHidden(name) { namespaceNames[id] = name }
        return name
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
    ///
    /// - Throws: `misplaced`, as all that changes feeds, where the namespace has left this database.
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

    /// Notes the definition that a feed has from now on, and announces it. Its worker begins anew, from what is kept, under a later
    /// generation than the one that is returned.
    ///
    /// - Parameters:
    ///   - keepsDone: whether messages keep their numbers, so that what is done after the place stays done. Else nothing of what is out, or
    ///     waits to be delivered again, is known any more; dead letters stay.
    ///   - stopsKeys: whether dead letters stop their keys from now on. Else what was set aside goes on.
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

    /// Removes a feed with all that is kept of it, and announces it. False where it was gone.
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

    /// Puts a feed at another place, from which everything is delivered again, and announces it. What is still out under the
    /// former generation is not taken any more; returns the one that is before the worker's next.
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
                    // What comes after the place comes from the log, whatever had become of it.
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
