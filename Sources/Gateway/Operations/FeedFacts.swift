public import Runtime

/// What the metrics tell of a feed that this gateway works.
public struct FeedFacts: Sendable {
    public let namespace: String
    public let name: String
    /// Whether its messages are delivered.
    public let isUp: Bool
    public let lagEntries: Int64
    public let lagMilliseconds: Milliseconds
    public let pendingMessages: Int64
    public let heldMessages: Int64
    /// Counted since the feed was made.
    public let delivered: Int64
    public let acknowledged: Int64
    public let redelivered: Int64
    public let deadLetters: Int64
    /// For how long the oldest message waits that is not acknowledged.
    public let oldestMilliseconds: Milliseconds
    /// For how long it has held pruning back beyond its retention.
    public let holdsBackMilliseconds: Milliseconds

    public init(
        namespace: String, name: String, isUp: Bool, lagEntries: Int64, lagMilliseconds: Milliseconds,
        pendingMessages: Int64, heldMessages: Int64, delivered: Int64, acknowledged: Int64, redelivered: Int64,
        deadLetters: Int64, oldestMilliseconds: Milliseconds, holdsBackMilliseconds: Milliseconds
    ) {
        self.namespace = namespace
        self.name = name
        self.isUp = isUp
        self.lagEntries = lagEntries
        self.lagMilliseconds = lagMilliseconds
        self.pendingMessages = pendingMessages
        self.heldMessages = heldMessages
        self.delivered = delivered
        self.acknowledged = acknowledged
        self.redelivered = redelivered
        self.deadLetters = deadLetters
        self.oldestMilliseconds = oldestMilliseconds
        self.holdsBackMilliseconds = holdsBackMilliseconds
    }
}
