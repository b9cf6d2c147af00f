import Postgres
import Runtime

/// Feed workers, their claims, and the progress of feeds.
extension LogConnection {
    // MARK: Workers

    /// Returns the address of this connection's client as the database sees it, or nil if the connection uses a Unix
    /// socket.
    public func clientHost() throws(LogStoreError) -> String? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute("select host(inet_client_addr())")
            return rows.isNull(0, 0) ? nil : try rows.string(0, 0)
        }
    }

    /// Registers a gateway as a feed worker, with the address at which other gateways reach it.
    public func beginFeedWorker(_ worker: [UInt8], _ reach: FeedWorkerReach) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                """
                insert into pathmirror.feed_worker (id, address, peer_address, peer_key, peer_pin)
                values ($1, $2, $2, $3, $4) on conflict (id) do nothing
                """,
                [
                    .uuid(worker), .text(reach.address), .bytea(reach.key.revealed()),
                    reach.pin.map { .bytea($0) } ?? .null(.bytea),
                ])
        }
    }

    /// Registers the public key of a worker's new certificate, and announces it.
    ///
    /// - Parameter pin: the SHA-256 of the public key.
    public func setFeedWorkerPin(_ worker: [UInt8], _ pin: [UInt8]?) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.pipeline([
                .query(
                    "update pathmirror.feed_worker set peer_pin = $2 where id = $1",
                    [.uuid(worker), pin.map { .bytea($0) } ?? .null(.bytea)]),
                .query("select pg_notify('\(Self.feedChannel)', '')"),
            ])
        }
    }

    /// Increments the heartbeat of a worker. Returns false if another gateway has declared the worker dead.
    public func heartbeatFeedWorker(_ worker: [UInt8]) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                "update pathmirror.feed_worker set beat = beat + 1, seen_at = now() where id = $1", [.uuid(worker)]
            ).affectedRows == 1
        }
    }

    /// Returns the heartbeats of all other workers.
    public func feedHeartbeats(otherThan worker: [UInt8]) throws(LogStoreError) -> [GatewayHeartbeat] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id::text, beat from pathmirror.feed_worker where id <> $1", [.uuid(worker)])
            var heartbeats: [GatewayHeartbeat] = []
            for row in 0..<rows.rowCount {
                heartbeats.append(
                    GatewayHeartbeat(gateway: try rows.string(row, 0), heartbeat: try rows.int64(row, 1), seenAt: ""))
            }
            return heartbeats
        }
    }

    /// Declares a worker dead unless its heartbeat has changed since `heartbeat` was read. Other workers can claim its feeds
    /// from then on. Returns false if the heartbeat has changed or the worker is gone.
    public func endFeedWorker(_ heartbeat: GatewayHeartbeat) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                "delete from pathmirror.feed_worker where id = $1::uuid and beat = $2",
                [.text(heartbeat.gateway), .int8(heartbeat.heartbeat)]
            ).affectedRows == 1
        }
    }

    /// Releases all feeds of the worker, removes its registration, and announces both.
    public func endFeedWorker(_ worker: [UInt8]) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.pipeline([
                .query(
                    """
                    with left_alone as (
                        update pathmirror.feed_owner set worker = null where worker = $1 returning namespace_id, feed
                    )
                    update pathmirror.feed_progress as progress set worker = null from left_alone
                    where progress.namespace_id = left_alone.namespace_id and progress.feed = left_alone.feed
                        and worker = $1
                    """, [.uuid(worker)]),
                .query("delete from pathmirror.feed_worker where id = $1", [.uuid(worker)]),
                .query("select pg_notify('\(Self.feedChannel)', '')"),
            ])
        }
    }

    // MARK: Claims

    /// Makes a worker the owner of a feed. Returns nil if another live worker owns the feed.
    ///
    /// - Returns: the claim and the progress of the feed. `handedTo` is the value that the previous worker left, and at
    ///   most the head.
    public func claimFeed(
        _ namespace: Int64, _ feed: Int64, by worker: [UInt8]
    ) throws(LogStoreError) -> (claim: FeedClaim, progress: FeedProgressRecord, handedTo: Int64)? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                with former as (
                    select progress.seq, progress.handed_to, namespace.head from pathmirror.feed_progress as progress
                    join pathmirror.namespace on namespace.id = progress.namespace_id
                    where namespace_id = $1 and feed = $2 and namespace.name not like '.%'
                        and (worker is null or worker = $3
                            or not exists (select from pathmirror.feed_worker as other where other.id = worker))
                    -- Whoever has it locked is at work on it: the next look comes soon.
                    for update of progress skip locked
                ), claimed as (
                    update pathmirror.feed_progress as progress
                    set worker = $3, generation = generation + 1, moves = 0, handed_to = greatest(former.handed_to, former.head)
                    from former
                    where namespace_id = $1 and feed = $2 and exists (select from pathmirror.feed_worker where id = $3)
                    returning generation, progress.seq, index, snapshot_seq, done, progress.handed_to, read_to, batch,
                        least(former.handed_to, former.head) as may_be_out
                ), owned as (
                    update pathmirror.feed_owner
                    set worker = $3, generation = claimed.generation, state = 'starting', message = null,
                        reported_at = clock_timestamp()
                    from claimed where namespace_id = $1 and feed = $2
                )
                select generation, seq, index, snapshot_seq, done, handed_to, read_to, batch, may_be_out from claimed
                """, [.int8(namespace), .int8(feed), .uuid(worker)])
            guard rows.rowCount == 1 else { return nil }
            let claim = FeedClaim(
                namespace: namespace, feed: feed, worker: worker, generation: try rows.int64(0, 0))
            let progress = FeedProgressRecord(
                seq: try rows.int64(0, 1), index: try rows.int64(0, 2),
                snapshotSeq: rows.isNull(0, 3) ? nil : try rows.int64(0, 3),
                done: rows.isNull(0, 4) ? [] : try rows.bytes(0, 4), handedTo: try rows.int64(0, 5),
                readTo: LogPosition(seq: try rows.int64(0, 6), batch: rows.isNull(0, 7) ? nil : try rows.bytes(0, 7)))
            return (claim, progress, try rows.int64(0, 8))
        }
    }

    /// Returns the stored failed messages of a feed, in order.
    ///
    /// - Parameter mostBytes: the size of messages and errors at which the result ends. The message that reaches this
    ///   size is the last.
    public func failedMessages(
        _ namespace: Int64, _ feed: Int64, states: [String], after: FeedPosition? = nil,
        limit: Int = 100_000, mostBytes: Int64 = .max
    ) throws(LogStoreError) -> [(failedMessage: FailedMessageRecord, since: String)] {
        try translated { () throws(PostgresError) in
            var wanted = PostgresArray(of: .text)
            for state in states { wanted.appendText(state) }
            let rows = try postgres.execute(
                """
                select seq, index, is_snapshot, key, state, attempts, errors::text, message::text,
                    to_char(since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
                from (
                    select *, sum(written) over (order by seq, is_snapshot, index) - written as bytes_before from (
                        select *, bytes + octet_length(errors::text) as written from pathmirror.feed_message
                        where namespace_id = $1 and feed = $2 and state = any($3)
                            and (seq, is_snapshot, index) > ($4, $5, $6)
                        order by seq, is_snapshot, index limit $7
                    ) as page
                ) as page
                where bytes_before < $8
                order by seq, is_snapshot, index
                """,
                [
                    .int8(namespace), .int8(feed), .array(wanted), .int8(after?.seq ?? -1),
                    .bool(after?.isSnapshot ?? false), .int8(after?.index ?? -1), .int8(Int64(limit)),
                    .int8(mostBytes),
                ])
            var failedMessages: [(FailedMessageRecord, String)] = []
            for row in 0..<rows.rowCount {
                failedMessages.append(
                    (
                        FailedMessageRecord(
                            position: FeedPosition(
                                seq: try rows.int64(row, 0), index: try rows.int64(row, 1),
                                isSnapshot: try rows.bool(row, 2)), key: try rows.string(row, 3),
                            state: try rows.string(row, 4), attempts: Int(try rows.int32(row, 5)),
                            errors: try rows.bytes(row, 6), message: rows.isNull(row, 7) ? nil : try rows.bytes(row, 7)),
                        try rows.string(row, 8)
                    ))
            }
            return failedMessages
        }
    }

    /// Returns the keys of a feed that have a dead letter or messages blocked by one.
    ///
    /// - Returns: each key once. Some may compare equal as Swift strings although they differ in their bytes.
    public func blockedFeedKeys(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> [String] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select distinct key from pathmirror.feed_message
                where namespace_id = $1 and feed = $2 and state in ('dead', 'blocked')
                """, [.int8(namespace), .int8(feed)])
            return try (0..<rows.rowCount).map { row throws(PostgresError) in try rows.string(row, 0) }
        }
    }

    // MARK: Progress

    /// Stores the progress of feeds in one transaction, and returns the claims that this worker has lost. Nothing is
    /// written for a lost claim, nor for a feed whose last stored move is older than the move's `follows`: the database
    /// was rolled back in the meantime. Storing a move twice is harmless.
    ///
    /// The commit is part of the same pipeline, so a gateway that freezes in the middle keeps no row locked.
    public func moveFeeds(_ moves: [FeedMove]) throws(LogStoreError) -> Set<FeedClaim> {
        do throws(PostgresError) {
            let steps = moves.map { PipelineStep.prepared(Self.moveFeed, parameters($0)) }
            let results = try postgres.pipeline(
                [.query("begin")] + steps + moves.flatMap(Self.failedMessageSteps) + [.query("commit")])
            for (index, move) in moves.enumerated() {
                feedLocations[move.claim.feed] = try results[index + 1].bytes(0, 0)
            }
            return []
        } catch {
            if postgres.isOpen { try? postgres.executeScript("rollback") }
            guard SchemaErrorCode(error) == .alreadyDone else { throw LogStoreError(error) }
            for move in moves { feedLocations[move.claim.feed] = nil }
            guard moves.count > 1 else { return Set(moves.map(\.claim)) }
            // At least one of the feeds is lost: store each separately.
            var lost: Set<FeedClaim> = []
            for move in moves { lost.formUnion(try moveFeeds([move])) }
            return lost
        }
    }

    private static let moveFeed = PostgresStatement(
        "move_feed",
        """
        select pathmirror.move_feed($1, $2, $3::text::tid, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)::text
        """,
        types: [
            .int8, .int8, .text, .uuid, .int8, .int8, .int8, .uuid, .int8, .bytea, .int8, .int8, .int8, .int8,
            .int8, .int8, .int8,
        ])

    private func parameters(_ move: FeedMove) -> PostgresParameters {
        var parameters: PostgresParameters = [.int8(move.claim.namespace), .int8(move.claim.feed)]
        if let location = feedLocations[move.claim.feed] {
            parameters.appendText(location)
        } else {
            parameters.appendNull(.text)
        }
        parameters.appendUUID(move.claim.worker)
        parameters.appendInt8(move.claim.generation)
        parameters.appendInt8(move.progress.seq)
        parameters.appendInt8(move.progress.index)
        if let batch = move.progress.readTo.batch { parameters.appendUUID(batch) } else { parameters.appendNull(.uuid) }
        if let seq = move.progress.snapshotSeq { parameters.appendInt8(seq) } else { parameters.appendNull(.int8) }
        if move.progress.done.isEmpty {
            parameters.appendNull(.bytea)
        } else {
            parameters.appendBytea(move.progress.done)
        }
        parameters.appendInt8(move.progress.handedTo)
        parameters.appendInt8(move.delivered)
        parameters.appendInt8(move.acknowledged)
        parameters.appendInt8(move.redelivered)
        parameters.appendInt8(move.progress.readTo.seq)
        parameters.appendInt8(move.number)
        parameters.appendInt8(move.follows)
        return parameters
    }

    private static func failedMessageSteps(_ move: FeedMove) -> [PipelineStep] {
        var steps: [PipelineStep] = []
        if !move.removed.isEmpty {
            var seqs = PostgresArray(of: .int8)
            var indexes = PostgresArray(of: .int8)
            var snapshots = PostgresArray(of: .bool)
            for position in move.removed {
                seqs.appendInt8(position.seq)
                indexes.appendInt8(position.index)
                snapshots.appendBool(position.isSnapshot)
            }
            steps.append(
                .query(
                    """
                    delete from pathmirror.feed_message as letter
                    using unnest($3::bigint[], $4::bigint[], $5::boolean[]) as gone (seq, index, is_snapshot)
                    where letter.namespace_id = $1 and letter.feed = $2 and letter.seq = gone.seq
                        and letter.index = gone.index and letter.is_snapshot = gone.is_snapshot
                    """,
                    [
                        .int8(move.claim.namespace), .int8(move.claim.feed), .array(seqs), .array(indexes),
                        .array(snapshots),
                    ]))
        }
        for failedMessage in move.failedMessages where failedMessage.message != nil {
            steps.append(storing(failedMessage, move.claim))
        }
        let failing = move.failedMessages.filter { $0.message == nil }
        if !failing.isEmpty { steps += noting(failing, move.claim) }
        return steps
    }

    /// Returns the step that writes a failed message with its body.
    private static func storing(_ failedMessage: FailedMessageRecord, _ claim: FeedClaim) -> PipelineStep {
        var parameters: PostgresParameters = [
            .int8(claim.namespace), .int8(claim.feed), .int8(failedMessage.position.seq),
            .int8(failedMessage.position.index), .bool(failedMessage.position.isSnapshot), .text(failedMessage.key),
            .text(failedMessage.state),
            .int4(Int32(failedMessage.attempts)),
        ]
        parameters.appendJSON(failedMessage.errors)
        if let message = failedMessage.message { parameters.appendJSON(message) } else { parameters.appendNull(.json) }
        parameters.appendInt8(Int64(failedMessage.message?.count ?? 0))
        return .query(
            """
            insert into pathmirror.feed_message
                (namespace_id, feed, seq, index, is_snapshot, key, state, attempts, errors, message, bytes)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
            on conflict (namespace_id, feed, seq, index, is_snapshot) do update
            set key = excluded.key, state = excluded.state, attempts = excluded.attempts, errors = excluded.errors,
                message = coalesce(excluded.message, feed_message.message),
                bytes = greatest(excluded.bytes, feed_message.bytes), since = now()
            """, parameters)
    }

    /// Returns the steps that record failures of messages whose bodies are in the log or already in their rows: two
    /// statements for all messages of a move, without touching the bodies. The rows are small and no index covers the
    /// changed columns, so new row versions stay in their pages.
    private static func noting(_ failedMessages: [FailedMessageRecord], _ claim: FeedClaim) -> [PipelineStep] {
        var seqs = PostgresArray(of: .int8)
        var indexes = PostgresArray(of: .int8)
        var snapshots = PostgresArray(of: .bool)
        var keys = PostgresArray(of: .text)
        var states = PostgresArray(of: .text)
        var attempts = PostgresArray(of: .int8)
        var errors = PostgresArray(of: .text)
        for failedMessage in failedMessages {
            seqs.appendInt8(failedMessage.position.seq)
            indexes.appendInt8(failedMessage.position.index)
            snapshots.appendBool(failedMessage.position.isSnapshot)
            keys.appendText(failedMessage.key)
            states.appendText(failedMessage.state)
            attempts.appendInt8(Int64(failedMessage.attempts))
            errors.appendText(failedMessage.errors)
        }
        let parameters: PostgresParameters = [
            .int8(claim.namespace), .int8(claim.feed), .array(seqs), .array(indexes), .array(snapshots), .array(keys),
            .array(states), .array(attempts), .array(errors),
        ]
        let changed = """
            unnest($3::bigint[], $4::bigint[], $5::boolean[], $6::text[], $7::text[], $8::bigint[], $9::text[])
                as changed (seq, index, is_snapshot, key, state, attempts, errors)
            """
        return [
            .query(
                """
                insert into pathmirror.feed_message
                    (namespace_id, feed, seq, index, is_snapshot, key, state, attempts, errors)
                select $1, $2, seq, index, is_snapshot, key, state, attempts::integer, errors::json from \(changed)
                where state <> 'retry'
                on conflict (namespace_id, feed, seq, index, is_snapshot) do update
                set key = excluded.key, state = excluded.state, attempts = excluded.attempts, errors = excluded.errors,
                    since = now()
                """, parameters),
            // A row that an administrator has removed is not inserted again without its message.
            .query(
                """
                update pathmirror.feed_message as letter
                set key = changed.key, attempts = changed.attempts::integer, errors = changed.errors::json, since = now()
                from \(changed)
                where letter.namespace_id = $1 and letter.feed = $2 and letter.seq = changed.seq
                    and letter.index = changed.index and letter.is_snapshot = changed.is_snapshot
                    and letter.state = 'retry' and changed.state = 'retry'
                """, parameters),
        ]
    }

    /// Publishes the states of feeds for `feed_status`.
    public func reportFeeds(
        _ reports: [(claim: FeedClaim, state: String, message: String?, pending: Int64, held: Int64)]
    ) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.pipeline(
                reports.map { report in
                    .query(
                        """
                        update pathmirror.feed_owner
                        set state = $5, message = $6, pending = $7, held = $8, reported_at = clock_timestamp()
                        where namespace_id = $1 and feed = $2 and worker = $3 and generation = $4
                        """,
                        [
                            .int8(report.claim.namespace), .int8(report.claim.feed), .uuid(report.claim.worker),
                            .int8(report.claim.generation), .text(report.state),
                            report.message.map { .text($0) } ?? .null(.text), .int8(report.pending), .int8(report.held),
                        ])
                })
        }
    }
}
