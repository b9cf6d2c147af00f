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

/// Which failures to connect are worth telling whoever runs the app. Each is told once while an outage lasts, as the tries go on.
struct OutageNotices {
    /// The reasons of one outage that are told: a server's words may differ with each try.
    static let most = 5

    private var told: Set<String> = []

    /// Whether a try's failure is to be told.
    mutating func isNews(_ reason: String) -> Bool { told.count < Self.most && told.insert(reason).inserted }

    /// The outage is over.
    ///
    /// - Returns: whether that is to be told, as its beginning was.
    mutating func connected() -> Bool {
        defer { told = [] }
        return !told.isEmpty
    }
}
