import Postgres

extension LogConnection {
    /// The batch that stands for a namespace's head, as an expression on its row.
    static let headBatch = "coalesce(last_batch, case when head = 0 then stream_key end)"

    /// What the log says of a place; nil where there is no such namespace.
    public func history(_ namespace: Int64, at seq: Int64) throws(LogStoreError) -> HistoryRecord? {
        let results = try translated { () throws(PostgresError) in
            try postgres.pipeline(Self.historySteps(namespace, at: seq))
        }
        return try Self.history(results)
    }

    /// The entries after a place, as `read` gives them, and what the log says of the place itself, in one round trip.
    public func readOn(
        _ namespace: Int64, after seq: Int64, limit: Int = 1_000, maxBytes: Int = 16 << 20
    ) throws(LogStoreError) -> (history: HistoryRecord?, entries: [LoggedEntry]) {
        let results = try translated { () throws(PostgresError) in
            let steps = Self.historySteps(namespace, at: seq)
            return try postgres.pipeline(
                steps + [Self.pageStep(namespace, after: seq, through: Self.end(of: seq, limit), limit, maxBytes)])
        }
        let history = try Self.history(results)
        var entries = try decode(results[2])
        if entries.isEmpty, let head = history?.head, head > seq {
            entries = try read(namespace, after: seq, limit: limit, maxBytes: maxBytes)
        }
        return (history, entries)
    }

    /// The batches of the entries that the log has of these.
    public func batches(_ namespace: Int64, at seqs: [Int64]) throws(LogStoreError) -> [Int64: [UInt8]] {
        guard !seqs.isEmpty else { return [:] }
        var list = PostgresArray(of: .int8)
        for seq in seqs { list.appendInt8(seq) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select seq, batch_id from pathmirror.log where namespace_id = $1 and seq = any($2)",
                [.int8(namespace), .array(list)])
            var batches: [Int64: [UInt8]] = [:]
            for row in 0..<rows.rowCount { batches[try rows.int64(row, 0)] = try rows.bytes(row, 1) }
            return batches
        }
    }

    // The log is looked at before the head: what is in it then was committed, and an entry below the head that it lacks was
    // not pruned meanwhile.
    private static func historySteps(_ namespace: Int64, at seq: Int64) -> [PipelineStep] {
        [
            .query(
                "select batch_id from pathmirror.log where namespace_id = $1 and seq = $2",
                [.int8(namespace), .int8(seq)]),
            .query(
                "select head, \(headBatch), retained_from, pruned_batch, stream_key from pathmirror.namespace where id = $1",
                [.int8(namespace)]),
        ]
    }

    private static func history(_ results: [PostgresResult]) throws(LogStoreError) -> HistoryRecord? {
        try translated { () throws(PostgresError) in
            guard results[1].rowCount == 1 else { return nil }
            return HistoryRecord(
                head: try results[1].int64(0, 0), headBatch: try bytes(results[1], 0, 1),
                retainedFrom: try results[1].int64(0, 2), prunedBatch: try bytes(results[1], 0, 3),
                origin: try results[1].bytes(0, 4),
                batch: results[0].rowCount == 1 ? try results[0].bytes(0, 0) : nil)
        }
    }

    static func bytes(_ rows: PostgresResult, _ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        rows.isNull(row, column) ? nil : try rows.bytes(row, column)
    }
}
