import Postgres

/// Messages that are delivered once more, of feeds that have done with them.
extension LogConnection {
    /// How far a feed has come; nil where it is gone.
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
                readTo: LogCursor(seq: try rows.int64(0, 5), batch: rows.isNull(0, 6) ? nil : try rows.bytes(0, 6)))
        }
    }

    /// Leaves letters to be delivered, and announces them. Where there is one already that waits to be delivered, that is enough; a
    /// dead one is delivered once more.
    public func replayLetters(
        _ namespace: Int64, _ feed: Int64, _ letters: [FeedLetterRecord]
    ) throws(LogStoreError) {
        var seqs = PostgresArray(of: .int8)
        var indexes = PostgresArray(of: .int8)
        var keys = PostgresArray(of: .text)
        var states = PostgresArray(of: .text)
        var messages = PostgresArray(of: .text)
        for letter in letters {
            seqs.appendInt8(letter.seq)
            indexes.appendInt8(letter.index)
            keys.appendText(letter.key)
            states.appendText(letter.state)
            messages.appendText(letter.message ?? [])
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
