internal import Runtime
internal import Synchronization

/// What a database has to say to whoever runs the app, on standard error.
enum ClientLog {
    static let isEnabled = Atomic<Bool>(false)
    private static let logger = Logger(level: .debug)

    /// Only where logging was asked for.
    static func info(_ message: @autoclosure () -> String) {
        if isEnabled.load(ordering: .relaxed) { logger.info(message()) }
    }

    /// Always: what an earlier warning told of is over.
    static func notice(_ message: String) { logger.notice(message) }

    /// Always.
    static func warning(_ message: String) { logger.warning(message) }
}
