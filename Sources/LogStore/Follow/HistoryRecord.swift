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
