public import LogStore

/// A failed attempt.
///
/// Its size is bounded, because each failure of a message writes all of the message's stored failures again.
public struct FeedFailure: Sendable, Equatable {
    /// The maximum size of a reason in bytes, written as JSON without its quotes.
    static let maxReasonBytes = 500
    /// The time in RFC 3339, in UTC.
    public let time: String
    public let attempt: Int
    public let reason: String

    public init(time: String, attempt: Int, reason: String) {
        self.time = time
        self.attempt = attempt
        self.reason = Self.bounded(reason)
    }

    /// Cuts a reason to at most `maxReasonBytes` in JSON. A reason that was cut ends with "…".
    private static func bounded(_ reason: String) -> String {
        let mark = "…"
        var bytes = 0
        // The end of the reason if it must be cut.
        var end = reason.startIndex
        for index in reason.unicodeScalars.indices {
            bytes += writtenBytes(reason.unicodeScalars[index])
            if bytes > maxReasonBytes { return reason[..<end] + mark }
            if bytes <= maxReasonBytes - mark.utf8.count { end = reason.unicodeScalars.index(after: index) }
        }
        return reason
    }

    /// Returns the maximum number of bytes that a scalar takes in JSON.
    private static func writtenBytes(_ scalar: Unicode.Scalar) -> Int {
        switch scalar {
        case "\"", "\\": 2
        case "\u{0}"..."\u{1F}", "\u{7F}": 6
        default: UTF8.width(scalar)
        }
    }

    /// Returns the failures to store, in order: the first and the last four.
    static func kept(_ failures: [FeedFailure]) -> [FeedFailure] {
        guard failures.count > 5 else { return failures }
        return failures.prefix(1) + failures.suffix(4)
    }
}

/// A message that failed at least once, was set aside or is retried, as the database stores it.
public struct FailedMessage: Sendable {
    public enum State: String, Sendable {
        /// An attempt failed. The message is delivered again from the log.
        case failing
        /// The last attempt failed.
        case dead
        /// The message is set aside after a dead letter of its key.
        case blocked
        /// The message is delivered again from its stored copy.
        case retry
    }

    public let position: FeedPosition
    /// The key by which the feed orders messages.
    public let key: String
    public let state: State
    public let attempts: Int
    /// The first and the last four failures, the newest last.
    public let failures: [FeedFailure]
    /// The message without its attempt number, or nil if it must be read from the log.
    public let message: FeedMessage?
}
