public import LogStore

/// How far a feed has come, as the database keeps it.
public struct FeedProgress: Sendable {
    /// All messages of entries up to this one are done.
    public var seq: Int64
    /// And the first so many of the entry behind it, or of the snapshot's tree.
    public var index: Int64
    /// The entry whose tree is the snapshot that the feed begins with, while its messages are not all done.
    public var snapshotSeq: Int64?
    /// What is done behind that.
    public var done: PlaceRanges
    /// Messages of entries behind this one have been handed to nobody.
    public var handedTo: Int64
    /// How far the log was read.
    public var readTo: LogCursor

    public init(
        seq: Int64, index: Int64 = 0, snapshotSeq: Int64? = nil, done: PlaceRanges = PlaceRanges(),
        handedTo: Int64? = nil, readTo: LogCursor? = nil
    ) {
        self.seq = seq
        self.index = index
        self.snapshotSeq = snapshotSeq
        self.done = done
        self.handedTo = handedTo ?? seq
        self.readTo = readTo ?? LogCursor(seq: seq)
    }

    /// Whether a message is done.
    public func isDone(_ position: FeedPosition) -> Bool {
        if position < first { return true }
        return done.contains(position)
    }

    /// The first place that may not be done.
    var first: FeedPosition {
        FeedPosition(seq: seq + 1, index: index, isSnapshot: snapshotSeq == seq + 1)
    }
}
