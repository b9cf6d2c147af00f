import Postgres

/// Changes that administrators make to dead letters.
extension LogConnection {
    /// Selects dead letters of a feed.
    public enum DeadLetterSelection: Sendable, Equatable {
        case all
        case key(String)
        case positions([FeedPosition])
    }

    /// The number and the age of some dead letters of a feed.
    public struct DeadLetterSummary: Sendable, Equatable {
        public let count: Int64
        /// The first and the last entry whose messages they are.
        public let firstSeq: Int64
        public let lastSeq: Int64
        /// The time when the gateway gave up the first one, as RFC 3339 in UTC.
        public let oldest: String
    }

    /// Returns the number of the feed's dead letters and of the messages blocked by them, with the total bytes of both.
    public func storedFailedMessages(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> (
        count: Int64, bytes: Int64
    ) {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select count(*), coalesce(sum(bytes), 0)::bigint from pathmirror.feed_message
                where namespace_id = $1 and feed = $2 and state in ('dead', 'blocked')
                """, [.int8(namespace), .int8(feed)])
            return (try rows.int64(0, 0), try rows.int64(0, 1))
        }
    }

    /// Schedules dead letters for another delivery, together with the messages that they blocked, and announces the
    /// change. Returns the number of dead letters.
    public func retryDeadLetters(
        _ namespace: Int64, _ feed: Int64, _ selection: DeadLetterSelection
    ) throws(LogStoreError) -> Int64 {
        try changeDeadLetters(
            namespace, feed, selection,
            "update pathmirror.feed_message set state = 'retry', attempts = 0, since = now() where state = 'dead' and")
    }

    /// Returns how many dead letters are meant, or nil if none is.
    public func deadLetterSummary(
        _ namespace: Int64, _ feed: Int64, _ selection: DeadLetterSelection
    ) throws(LogStoreError) -> DeadLetterSummary? {
        let (condition, parameters) = Self.condition(namespace, feed, selection)
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select count(*), min(seq), max(seq), to_char(min(since) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
                from pathmirror.feed_message where state = 'dead' and namespace_id = $1 and feed = $2 and \(condition)
                """, parameters)
            let count = try rows.int64(0, 0)
            guard count > 0 else { return nil }
            return DeadLetterSummary(
                count: count, firstSeq: try rows.int64(0, 1), lastSeq: try rows.int64(0, 2),
                oldest: try rows.string(0, 3))
        }
    }

    /// Drops dead letters, and schedules the messages that they blocked for delivery. Returns the number of dropped letters.
    public func dropDeadLetters(
        _ namespace: Int64, _ feed: Int64, _ selection: DeadLetterSelection
    ) throws(LogStoreError) -> Int64 {
        try changeDeadLetters(
            namespace, feed, selection, "delete from pathmirror.feed_message where state = 'dead' and")
    }

    private func changeDeadLetters(
        _ namespace: Int64, _ feed: Int64, _ selection: DeadLetterSelection, _ statement: String
    ) throws(LogStoreError) -> Int64 {
        let (condition, parameters) = Self.condition(namespace, feed, selection)
        let own: PostgresParameters = [.int8(namespace), .int8(feed)]
        return try mayBeMisplaced { () throws(PostgresError) in
            let results = try holding(
                namespace,
                [
                    .query("\(statement) namespace_id = $1 and feed = $2 and \(condition)", parameters),
                    .query(Self.revival, own),
                    .query(
                        "update pathmirror.feed set revision = revision + 1 where namespace_id = $1 and id = $2", own),
                    .query("select pg_notify('\(Self.feedChannel)', '')"),
                ])
            return Int64(results[0].affectedRows)
        }
    }

    /// Returns a condition for a selection, and its parameters, of which the first two are the namespace and the feed.
    private static func condition(
        _ namespace: Int64, _ feed: Int64, _ selection: DeadLetterSelection
    ) -> (sql: String, parameters: PostgresParameters) {
        var parameters: PostgresParameters = [.int8(namespace), .int8(feed)]
        var condition = "true"
        switch selection {
        case .all: break
        case .key(let key):
            parameters.appendText(key)
            condition = "key = $3"
        case .positions(let positions):
            var seqs = PostgresArray(of: .int8)
            var indexes = PostgresArray(of: .int8)
            var snapshots = PostgresArray(of: .bool)
            for position in positions {
                seqs.appendInt8(position.seq)
                indexes.appendInt8(position.index)
                snapshots.appendBool(position.isSnapshot)
            }
            parameters.append(seqs)
            parameters.append(indexes)
            parameters.append(snapshots)
            condition =
                "(seq, index, is_snapshot) in (select * from unnest($3::bigint[], $4::bigint[], $5::boolean[]))"
        }
        return (condition, parameters)
    }

    /// Schedules blocked messages whose key has no dead letter left.
    private static let revival = """
        update pathmirror.feed_message as letter set state = 'retry', attempts = 0, since = now()
        where namespace_id = $1 and feed = $2 and state = 'blocked' and not exists (
            select from pathmirror.feed_message as dead
            where dead.namespace_id = $1 and dead.feed = $2 and dead.state = 'dead' and dead.key = letter.key)
        """

    /// Schedules messages that were blocked by a dead letter while an administrator was removing it.
    public func reviveFailedMessages(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(Self.revival, [.int8(namespace), .int8(feed)])
        }
    }

    /// Blocks messages that wait for another delivery and come after a dead letter of their key, because the key has
    /// stopped since they were scheduled.
    public func setAsideFailedMessages(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                """
                with stopped as (
                    -- The first dead letter of each key: a join with all of them takes time that grows with their square.
                    select distinct on (key) key, seq, is_snapshot, index from pathmirror.feed_message
                    where namespace_id = $1 and feed = $2 and state = 'dead'
                    order by key, seq, is_snapshot, index
                )
                update pathmirror.feed_message as letter set state = 'blocked', since = now() from stopped
                where letter.namespace_id = $1 and letter.feed = $2 and letter.state = 'retry' and letter.key = stopped.key
                    and (stopped.seq, stopped.is_snapshot, stopped.index) < (letter.seq, letter.is_snapshot, letter.index)
                """, [.int8(namespace), .int8(feed)])
        }
    }

    /// Returns the keys of the feed's messages after `position` that wait for another delivery, each once, with the last
    /// message of the key.
    public func retriedFeedKeys(
        _ namespace: Int64, _ feed: Int64, after position: FeedPosition, limit: Int
    ) throws(LogStoreError) -> [(key: String, last: FeedPosition)] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select distinct on (key) key, seq, index, is_snapshot from pathmirror.feed_message
                where namespace_id = $1 and feed = $2 and state = 'retry' and (seq, is_snapshot, index) > ($3, $4, $5)
                order by key, seq desc, is_snapshot desc, index desc limit $6
                """,
                [
                    .int8(namespace), .int8(feed), .int8(position.seq), .bool(position.isSnapshot),
                    .int8(position.index),
                    .int8(Int64(limit)),
                ])
            return try (0..<rows.rowCount).map { row throws(PostgresError) in
                (
                    try rows.string(row, 0),
                    FeedPosition(
                        seq: try rows.int64(row, 1), index: try rows.int64(row, 2), isSnapshot: try rows.bool(row, 3))
                )
            }
        }
    }
}

/// Redelivery of messages that a feed has already finished.
extension LogConnection {
    /// Returns the progress of a feed, or nil if the feed does not exist.
    public func feedProgress(_ namespace: Int64, _ feed: Int64) throws(LogStoreError) -> FeedProgressRecord? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select seq, index, snapshot_seq, done, handed_to, read_to, batch from pathmirror.feed_progress
                where namespace_id = $1 and feed = $2
                """, [.int8(namespace), .int8(feed)])
            guard rows.rowCount == 1 else { return nil }
            return FeedProgressRecord(
                seq: try rows.int64(0, 0), index: try rows.int64(0, 1),
                snapshotSeq: rows.isNull(0, 2) ? nil : try rows.int64(0, 2),
                done: rows.isNull(0, 3) ? [] : try rows.bytes(0, 3), handedTo: try rows.int64(0, 4),
                readTo: LogPosition(seq: try rows.int64(0, 5), batch: rows.isNull(0, 6) ? nil : try rows.bytes(0, 6)))
        }
    }

    /// Stores messages for delivery, and announces them. A message that already waits for delivery is left unchanged.
    /// A dead letter is scheduled for another delivery.
    public func replayFailedMessages(
        _ namespace: Int64, _ feed: Int64, _ failedMessages: [FailedMessageRecord]
    ) throws(LogStoreError) {
        var seqs = PostgresArray(of: .int8)
        var indexes = PostgresArray(of: .int8)
        var keys = PostgresArray(of: .text)
        var states = PostgresArray(of: .text)
        var messages = PostgresArray(of: .text)
        for failedMessage in failedMessages {
            seqs.appendInt8(failedMessage.position.seq)
            indexes.appendInt8(failedMessage.position.index)
            keys.appendText(failedMessage.key)
            states.appendText(failedMessage.state)
            messages.appendText(failedMessage.message ?? [])
        }
        let own: PostgresParameters = [.int8(namespace), .int8(feed)]
        let parameters: PostgresParameters = [
            .int8(namespace), .int8(feed), .array(seqs), .array(indexes), .array(keys), .array(states),
            .array(messages),
        ]
        try mayBeMisplaced { () throws(PostgresError) in
            _ = try holding(
                namespace,
                [
                    .query(
                        """
                        insert into pathmirror.feed_message as letter
                            (namespace_id, feed, seq, index, is_snapshot, key, state, attempts, errors, message, bytes)
                        select $1, $2, seq, index, false, key, state, 0, '[]', message::json, octet_length(message)
                        from unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])
                            as replayed (seq, index, key, state, message)
                        on conflict (namespace_id, feed, seq, index, is_snapshot) do update
                        set state = 'retry', attempts = 0, message = excluded.message, bytes = excluded.bytes, since = now()
                        where letter.state = 'dead'
                        """, parameters),
                    .query(
                        "update pathmirror.feed set revision = revision + 1 where namespace_id = $1 and id = $2", own),
                    .query("select pg_notify('\(Self.feedChannel)', '')"),
                ])
        }
    }
}
