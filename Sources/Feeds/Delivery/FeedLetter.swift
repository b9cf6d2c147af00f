/// An attempt that failed.
public struct FeedFailure: Sendable, Equatable {
    /// As RFC 3339 in UTC.
    public let time: String
    public let attempt: Int
    public let reason: String

    public init(time: String, attempt: Int, reason: String) {
        self.time = time
        self.attempt = attempt
        self.reason = reason
    }
}

/// A message of which the database keeps more than that it is not done.
public struct FeedLetter: Sendable {
    public enum State: String, Sendable {
        /// It failed and is delivered again, from the log.
        case failing
        /// It failed for the last time.
        case dead
        /// Set aside behind a dead one of its key.
        case blocked
        /// To be delivered once more, from what is stored.
        case retry
    }

    public let position: FeedPosition
    /// The key by which the feed orders.
    public let key: String
    public let state: State
    public let attempts: Int
    /// The newest last; the oldest are left out where there are too many.
    public let failures: [FeedFailure]
    /// The message, without its attempt; nil where it is in the log.
    public let message: FeedMessage?
}
