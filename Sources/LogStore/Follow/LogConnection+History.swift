import Postgres

extension LogConnection {
    /// The batch that stands for a namespace's head, as an expression on its row.
    static let headBatch = "coalesce(last_batch, case when head = 0 then stream_key end)"

    /// The heads of these namespaces, and the batches that stand for them. Those that are not there are left out.
    public func heads(
        _ namespaces: [Int64]
    ) throws(LogStoreError) -> [(namespace: Int64, head: Int64, batch: [UInt8]?)] {
        var ids = PostgresArray(of: .int8)
        for id in namespaces { ids.appendInt8(id) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id, head, \(Self.headBatch) from pathmirror.namespace where id = any($1)", [.array(ids)])
            var heads: [(namespace: Int64, head: Int64, batch: [UInt8]?)] = []
            heads.reserveCapacity(rows.rowCount)
            for row in 0..<rows.rowCount {
                heads.append((try rows.int64(row, 0), try rows.int64(row, 1), try Self.bytes(rows, row, 2)))
            }
            return heads
        }
    }

    /// What the log says of a place; nil where there is no such namespace.
    public func history(_ namespace: Int64, at seq: Int64) throws(LogStoreError) -> HistoryRecord? {
        let results = try translated { () throws(PostgresError) in
            try postgres.pipeline(Self.historySteps(namespace, at: seq))
        }
        return try Self.history(results)
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
    static func historySteps(_ namespace: Int64, at seq: Int64) -> [PipelineStep] {
        [
            .prepared(batchStatement, [.int8(namespace), .int8(seq)]),
            .prepared(headStatement, [.int8(namespace)]),
        ]
    }

    private static let batchStatement = PostgresStatement(
        "batch_at", "select pathmirror.batch_at($1, $2)", types: [.int8, .int8])
    private static let headStatement = PostgresStatement(
        "head_of",
        "select head, \(headBatch), retained_from, pruned_batch, stream_key from pathmirror.namespace where id = $1",
        types: [.int8])

    static func history(_ results: [PostgresResult]) throws(LogStoreError) -> HistoryRecord? {
        try translated { () throws(PostgresError) in
            guard results[1].rowCount == 1 else { return nil }
            return HistoryRecord(
                head: try results[1].int64(0, 0), headBatch: try bytes(results[1], 0, 1),
                retainedFrom: try results[1].int64(0, 2), prunedBatch: try bytes(results[1], 0, 3),
                origin: try results[1].bytes(0, 4),
                batch: try bytes(results[0], 0, 0))
        }
    }

    static func bytes(_ rows: PostgresResult, _ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        rows.isNull(row, column) ? nil : try rows.bytes(row, column)
    }
}
