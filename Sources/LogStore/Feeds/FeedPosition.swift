/// A message's position in its feed: the seq of its entry, and its index among the feed's messages of the entry. The
/// messages of a snapshot come after those of the snapshot's entry.
///
/// Unlike a `LogPosition`, it identifies a message. Two feeds may have different messages at the same position.
public struct FeedPosition: Sendable, Hashable, Comparable {
    public let seq: Int64
    public let index: Int64
    public let isSnapshot: Bool

    public init(seq: Int64, index: Int64, isSnapshot: Bool = false) {
        self.seq = seq
        self.index = index
        self.isSnapshot = isSnapshot
    }

    public func hash(into hasher: inout Hasher) {
        // `isSnapshot` hardly ever distinguishes two positions, so it is not hashed.
        hasher.combine(seq)
        hasher.combine(index)
    }

    public static func < (left: FeedPosition, right: FeedPosition) -> Bool {
        if left.seq != right.seq { return left.seq < right.seq }
        if left.isSnapshot != right.isSnapshot { return right.isSnapshot }
        return left.index < right.index
    }
}
