import Postgres

/// What the database says of a place in a namespace's log: whether somebody's state as of that place goes on here.
///
/// A failover to a standby that had not received everything, or a backup that is restored, takes entries back, and others
/// may get their seqs. The numbers then say nothing; the batches that the entries came in do.
public struct HistoryRecord: Sendable, Equatable {
    public let head: Int64
    /// The batch of the entry at the head. Of an empty log the namespace's own key stands for it. Nil where nothing has been
    /// written since the database keeps it.
    public let headBatch: [UInt8]?
    public let retainedFrom: Int64
    /// The batch of the entry before `retainedFrom`.
    public let prunedBatch: [UInt8]?
    /// What stands for the batch of seq 0: the namespace's own key, which no other namespace has.
    public let origin: [UInt8]
    /// The batch of the entry at the place itself, where the log has it.
    public let batch: [UInt8]?

    public init(
        head: Int64, headBatch: [UInt8]?, retainedFrom: Int64, prunedBatch: [UInt8]?, origin: [UInt8],
        batch: [UInt8]?
    ) {
        self.head = head
        self.headBatch = headBatch
        self.retainedFrom = retainedFrom
        self.prunedBatch = prunedBatch
        self.origin = origin
        self.batch = batch
    }

    /// The batch that stands for the place; nil where nobody knows it any more.
    public func batch(of seq: Int64) -> [UInt8]? {
        if seq == 0 { return origin }
        if let batch { return batch }
        if seq == head { return headBatch }
        return seq == retainedFrom - 1 ? prunedBatch : nil
    }

    /// How a state as of some place relates to the log.
    public enum Relation: Sendable, Equatable {
        /// The log goes on from it.
        case goesOn
        /// The log has another history: what the state is made of was taken back.
        case takenBack
        /// The log doesn't reach back so far.
        case unknown
    }

    /// - Parameters:
    ///   - seq: the place that this record is of.
    ///   - known: the batch of the entry that the state has there; nil where its holder doesn't know it.
    public func relation(of seq: Int64, batch known: [UInt8]?) -> Relation {
        if seq > head { return .takenBack }
        guard let known else { return .goesOn }
        if let batch = batch(of: seq) { return batch == known ? .goesOn : .takenBack }
        // An entry that should be there and isn't was never written, as far as this database knows.
        return seq >= retainedFrom ? .takenBack : .unknown
    }
}

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
