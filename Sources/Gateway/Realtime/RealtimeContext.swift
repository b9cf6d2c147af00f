import Crypto
import Engine
import HTTPServer
import Placement
import Runtime
import Synchronization

/// The gateway's services for realtime sessions. Shared by all loops.
final class RealtimeContext: Sendable {
    let databases: Databases
    let settings: GatewaySettings
    let metrics: GatewayMetrics
    let groups: ListenerGroups
    /// The loop of each session.
    let directory = SessionDirectory()
    let transactionQueues = TransactionTurnTable()
    let authenticator: Authenticator
    let limiter: RateLimiter
    let memory: MemoryBudget
    /// Threads for tasks that take too long for a loop.
    let workers: WorkerPool
    let logger: Logger
    let longMessages: LongMessageLog

    init(
        _ databases: Databases, _ settings: GatewaySettings, _ metrics: GatewayMetrics, _ groups: ListenerGroups,
        _ authenticator: Authenticator, _ limiter: RateLimiter, _ workers: WorkerPool, _ logger: Logger
    ) {
        self.databases = databases
        self.settings = settings
        self.metrics = metrics
        self.groups = groups
        self.authenticator = authenticator
        self.limiter = limiter
        memory = settings.memory
        self.workers = workers
        self.logger = logger
        longMessages = LongMessageLog(logger, limit: settings.maxMessageBytes)
    }
}

/// The loop of each realtime session. Shared by all loops.
final class SessionDirectory: Sendable {
    private let sessionLoops = Condition<[String: any SessionLoop]>([:])

    func add(_ session: String, _ sessionLoop: any SessionLoop) { sessionLoops.withLock { $0[session] = sessionLoop } }
    func remove(_ session: String) { sessionLoops.broadcast { $0[session] = nil } }

    func sessionLoop(of session: String) -> (any SessionLoop)? { sessionLoops.withLock { $0[session] } }

    /// The loop of any one session.
    var anySessionLoop: (any SessionLoop)? { sessionLoops.withLock { $0.first?.value } }

    /// Closes all sessions of the namespaces of a database, on their loops.
    func closeAll(in database: Int) {
        let sessionLoops = sessionLoops.withLock { sessionLoops in
            Dictionary(sessionLoops.values.map { (ObjectIdentifier($0), $0) }) { first, _ in first }
        }
        for sessionLoop in sessionLoops.values { sessionLoop.closeAll(in: database) }
    }

    /// Waits until no session is left, or until the timeout.
    func waitUntilEmpty(milliseconds: Milliseconds) {
        _ = sessionLoops.wait(milliseconds: milliseconds) { $0.isEmpty ? true : nil }
    }

    /// Returns 32 unpredictable hex digits, used for session ids and their passwords.
    static func makeToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let words = (generator.next() as UInt64, generator.next() as UInt64)
        return withUnsafeBytes(of: words) { Hex.encode($0) }
    }
}

/// Writes log lines about realtime messages above the size limit. Any thread.
///
/// SDKs send such a message again after each reconnection, and a peer can announce one at no cost. So there is at most
/// one line a second; `omitted` is the number of messages since the previous line that were not logged.
final class LongMessageLog: Sendable {
    private struct State {
        var nextLine: Milliseconds = 0
        var omitted = 0
    }

    private let logger: Logger
    private let limit: Int
    private let state = Mutex(State())
    private static let pauseMilliseconds: Milliseconds = 1_000

    /// - Parameter limit: the largest message, in bytes.
    init(_ logger: Logger, limit: Int) {
        self.logger = logger
        self.limit = limit
    }

    /// Logs that a client's message is too long and that its connection ends.
    func note(from address: IPAddress?, in namespace: String, now: Milliseconds = Clock.monotonicMilliseconds) {
        let omitted = state.withLock { state -> Int? in
            guard now >= state.nextLine else {
                state.omitted += 1
                return nil
            }
            defer { state = State(nextLine: now + Self.pauseMilliseconds) }
            return state.omitted
        }
        guard let omitted else { return }
        logger.warning(
            "a realtime message is larger than --max-user-body: its connection is closed",
            [
                ("namespace", namespace), ("address", address.map { "\($0)" } ?? "unknown"), ("limit", "\(limit)"),
                ("omitted", "\(omitted)"),
            ])
    }
}
