internal import Runtime
internal import Synchronization

/// Log messages of a database for the app's developers, on standard error.
enum ClientLog {
    static let isEnabled = Atomic<Bool>(false)
    private static let logger = Logger(level: .debug)

    /// Logs a message if logging is enabled.
    static func info(_ message: @autoclosure () -> String) {
        if isEnabled.load(ordering: .relaxed) { logger.info(message()) }
    }

    /// Logs, regardless of `isEnabled`, that the reason for an earlier warning no longer exists.
    static func notice(_ message: String) { logger.notice(message) }

    /// Logs a warning, regardless of `isEnabled`.
    static func warning(_ message: String) { logger.warning(message) }
}

/// Selects the connection failures to report. Each reason is reported once during an outage, however often the client retries.
struct OutageNotices {
    /// The maximum number of reasons reported for one outage, because a server's message may differ with each try.
    static let most = 5

    private var reported: Set<String> = []

    /// Returns whether to report the failure of a try.
    mutating func isNews(_ reason: String) -> Bool { reported.count < Self.most && reported.insert(reason).inserted }

    /// Ends the outage.
    ///
    /// - Returns: Whether to report the end, because the beginning was reported.
    mutating func connected() -> Bool {
        defer { reported = [] }
        return !reported.isEmpty
    }
}
