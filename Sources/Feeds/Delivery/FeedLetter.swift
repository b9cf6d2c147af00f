/// An attempt that failed.
///
/// It is small whatever a consumer or an endpoint says: each failure of a message writes all that are kept of it again.
public struct FeedFailure: Sendable, Equatable {
    /// The most bytes of a reason as it is written in JSON, without its quotes.
    static let maxReasonBytes = 500
    /// As RFC 3339 in UTC.
    public let time: String
    public let attempt: Int
    public let reason: String

    public init(time: String, attempt: Int, reason: String) {
        self.time = time
        self.attempt = attempt
        self.reason = Self.bounded(reason)
    }

    /// Cuts a reason so that it has at most `maxReasonBytes` in JSON; one that was cut ends with "…".
    private static func bounded(_ reason: String) -> String {
        let mark = "…"
        var bytes = 0
        // Where the reason ends if it is cut.
        var end = reason.startIndex
        for index in reason.unicodeScalars.indices {
            bytes += writtenBytes(reason.unicodeScalars[index])
            if bytes > maxReasonBytes { return reason[..<end] + mark }
            if bytes <= maxReasonBytes - mark.utf8.count { end = reason.unicodeScalars.index(after: index) }
        }
        return reason
    }

    /// The most bytes that a scalar takes in JSON.
    private static func writtenBytes(_ scalar: Unicode.Scalar) -> Int {
        switch scalar {
        case "\"", "\\": 2
        case "\u{0}"..."\u{1F}", "\u{7F}": 6
        default: UTF8.width(scalar)
        }
    }

    /// Those that are kept of a message's failures, in order: the first, and the last four.
    static func kept(_ failures: [FeedFailure]) -> [FeedFailure] {
        guard failures.count > 5 else { return failures }
        return failures.prefix(1) + failures.suffix(4)
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
    /// The newest last: the first, and the last four.
    public let failures: [FeedFailure]
    /// The message, without its attempt; nil where it is in the log.
    public let message: FeedMessage?
}
