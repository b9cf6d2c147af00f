public import Postgres

/// Batches of one namespace that are sent one behind the other, before it is known what becomes of the first.
///
/// Each expects to be right behind the one before it, by its id. So none is ever written unless the one before it is, whether the
/// connection lasts or not.
extension LogConnection {
    /// Whether the batch can be sent by `sendCommit`: it takes one round trip, and there is somewhere for it to go.
    public func canSend(_ batch: Batch) -> Bool {
        hasChosenPacking && postgres.isOpen && !goesByCopy(batch)
            && partitionedTo[batch.namespace, default: 0] > batch.newHead
    }

    /// Whether an answer to the first of them has begun to arrive, or none will. Does not wait.
    public var isCommitAnswered: Bool { postgres.isPipelineAnswered }

    /// Whether all that was sent is on its way. Does not wait.
    public var areCommitsOut: Bool { postgres.isPipelineOut }

    /// How many batches were sent and not received.
    public var commitsUnderWay: Int { sent.count }

    /// Sends a batch that may be sent so (`canSend`), behind those that are under way, and does not wait. Until all of them are
    /// received, the connection is of no other use.
    ///
    /// - Throws: `isConnectionLost`: then nothing can be received any more, and the outcome of this one, and of those that are under way,
    ///   is unknown until `findBatch` says it.
    public func sendCommit(_ batch: Batch) throws(LogStoreError) {
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        try translated { () throws(PostgresError) in try postgres.sendPipeline(steps(batch, false)) }
        sent.append(batch)
    }

    /// Waits until what became of the first batch begins to arrive, or `wake` was called: false then.
    ///
    /// - Throws: `isConnectionLost`, as `sendCommit`.
    public func awaitCommit(wake: WakeHandle) throws(LogStoreError) -> Bool {
        let usual = sent.first.map(bePatient(with:)) ?? postgres.statementTimeoutMilliseconds
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try translated { () throws(PostgresError) in try postgres.awaitPipeline(wake: wake) }
    }

    /// Waits for what became of the first of the batches under way, of which there has to be one; as `commit`. Where it was not committed, nor will be those behind it,
    /// which have to be received before anything else is done.
    public func receiveCommit() throws(LogStoreError) -> CommitOutcome {
        committedAt = nil
        let batch = sent.removeFirst()
        let usual = bePatient(with: batch)
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try outcome(of: batch, false) { try noteHead(batch.namespace, try postgres.receivePipeline()[1]) }
    }
}
