public import Runtime

/// What the metrics tell of a feed that this gateway works.
public struct FeedFacts: Sendable {
    public let namespace: String
    public let name: String
    /// Whether its messages are delivered.
    public let isUp: Bool
    public let lagMilliseconds: Milliseconds
    public let heldMessages: Int64
    /// Counted since the feed was made.
    public let acknowledged: Int64
    public let redelivered: Int64
    public let deadLetters: Int64
    /// For how long it has held pruning back beyond its retention.
    public let holdsBackMilliseconds: Milliseconds

    public init(
        namespace: String, name: String, isUp: Bool, lagMilliseconds: Milliseconds, heldMessages: Int64,
        acknowledged: Int64, redelivered: Int64, deadLetters: Int64, holdsBackMilliseconds: Milliseconds
    ) {
        self.namespace = namespace
        self.name = name
        self.isUp = isUp
        self.lagMilliseconds = lagMilliseconds
        self.heldMessages = heldMessages
        self.acknowledged = acknowledged
        self.redelivered = redelivered
        self.deadLetters = deadLetters
        self.holdsBackMilliseconds = holdsBackMilliseconds
    }
}
