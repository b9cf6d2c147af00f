import Postgres

/// The database's record of a position in a namespace's log. It shows whether the log continues a state that was read
/// at that position.
///
/// A failover to a standby that had not received everything, or a restored backup, rolls back entries, and other
/// entries may get their seqs. Equal seqs then prove nothing.
/// Equal batches do.
public struct HistoryRecord: Sendable, Equatable {
    public let head: Int64
    /// The batch of the entry at the head, or the namespace's own key if the log is empty. Nil if nothing has been
    /// written since the database stores it.
    public let headBatch: [UInt8]?
    public let retainedFrom: Int64
    /// The batch of the entry before `retainedFrom`.
    public let prunedBatch: [UInt8]?
    /// Stands for the batch of seq 0: the namespace's own key, which no other namespace has.
    public let origin: [UInt8]
    /// The batch of the entry at the position itself, or nil if the log does not contain the entry.
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

    /// Returns the batch at the position `seq` of this record, or nil if it is no longer known.
    public func batch(of seq: Int64) -> [UInt8]? {
        if seq == 0 { return origin }
        if let batch { return batch }
        if seq == head { return headBatch }
        return seq == retainedFrom - 1 ? prunedBatch : nil
    }

    /// The relation of a state to the log.
    public enum Relation: Sendable, Equatable {
        /// The log continues the state.
        case continues
        /// The log has another history: entries that the state contains were rolled back.
        case rolledBack
        /// The log no longer reaches back to the state.
        case unknown
    }

    /// Compares a state with the log.
    ///
    /// - Parameter position: the position of the state. This record is of the same seq.
    public func relation(of position: LogPosition) -> Relation {
        if position.seq > head { return .rolledBack }
        guard let known = position.batch else { return .continues }
        if let batch = batch(of: position.seq) { return batch == known ? .continues : .rolledBack }
        // The entry should be in the log and is not: in this database's history it was never written.
        return position.seq >= retainedFrom ? .rolledBack : .unknown
    }
}

extension LogConnection {
    /// An SQL expression on a namespace's row for the batch at the head.
    static let headBatch = "coalesce(last_batch, case when head = 0 then stream_key end)"

    /// Returns the heads of the namespaces, and what the namespaces follow. Namespaces that do not exist are left out.
    public func heads(
        _ namespaces: [Int64]
    ) throws(LogStoreError) -> [(namespace: Int64, head: LogPosition, following: Following)] {
        var ids = PostgresArray(of: .int8)
        for id in namespaces { ids.appendInt8(id) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id, head, \(Self.headBatch), \(Following.column) from pathmirror.namespace where id = any($1)",
                [.array(ids)])
            var heads: [(namespace: Int64, head: LogPosition, following: Following)] = []
            heads.reserveCapacity(rows.rowCount)
            for row in 0..<rows.rowCount {
                let head = LogPosition(seq: try rows.int64(row, 1), batch: try Self.bytes(rows, row, 2))
                heads.append((try rows.int64(row, 0), head, try Following(rows, row, 3)))
            }
            return heads
        }
    }

    /// Returns the history record of a position, or nil if the namespace does not exist.
    public func history(_ namespace: Int64, at seq: Int64) throws(LogStoreError) -> HistoryRecord? {
        let results = try translated { () throws(PostgresError) in
            try postgres.pipeline(Self.historySteps(namespace, at: seq))
        }
        return try Self.history(results)
    }

    /// Returns the batches of those entries that are in the log.
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

    // The log is read before the head. An entry that is found was committed, and an entry at or below the head that is
    // missing was not pruned between the two reads.
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
