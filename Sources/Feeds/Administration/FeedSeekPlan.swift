import LogStore

/// The effect of moving a feed to another log position.
public struct FeedSeekPlan: Sendable, Equatable {
    /// The feed's log position now, and its log position afterwards.
    public let from: Int64
    public let to: Int64
    /// Whether the feed begins again with a snapshot of the tree at `to`.
    public let isSnapshot: Bool
    /// The number of entries that the feed has not finished and never delivers.
    public let skipped: Int64
    /// The number of entries after `to` of which the feed has finished messages, which it delivers again. 0 for a snapshot.
    public let repeated: Int64
    /// Whether the feed delivers a snapshot now, so that only another snapshot brings it back.
    public let wasInSnapshot: Bool
    /// Whether the log still has the entry after `from`, so that the feed can return there.
    public let isRetained: Bool

    /// Whether the feed leaves entries out, or delivers any message again.
    public var isNoticed: Bool { isSnapshot || skipped > 0 || repeated > 0 }

    /// - Parameters:
    ///   - to: the log position that the feed gets; for a snapshot, the head.
    ///   - retainedFrom: the oldest entry in the log.
    init(_ progress: FeedProgress, to: Int64, isSnapshot: Bool, retainedFrom: Int64) {
        from = progress.seq
        self.to = to
        self.isSnapshot = isSnapshot
        skipped = max(0, to - progress.seq)
        // Messages after the first one that is not done may be done as well.
        let lastDone = max(progress.seq, progress.done.ranges.last?.upperBound.seq ?? 0)
        repeated = isSnapshot ? 0 : max(0, lastDone - to)
        wasInSnapshot = progress.snapshotSeq != nil
        isRetained = progress.seq + 1 >= retainedFrom
    }
}
