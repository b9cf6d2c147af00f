public import LogStore
public import Postgres
public import Runtime

/// The intervals and limits of retention.
public struct RetentionSettings: Sendable {
    /// Milliseconds between two passes; 0: this gateway shortens no logs.
    public var intervalMilliseconds: Milliseconds = 60_000
    /// Maximum number of namespaces in one pass; the next pass continues after them.
    public var namespacesAtOnce: Int64 = 1_000

    /// Days for which the names of a client's writes are kept after its last write.
    public var rememberedWriteDays: Int64 = 30
    /// Milliseconds between two removals of old names of writes, by this gateway or another one.
    public var forgettingMilliseconds: Milliseconds = 60_000

    public init() {}
}

/// Metrics of this gateway's retention.
public final class RetentionMetrics: Sendable {
    public let droppedEntries = Counter()
    public let failures = Counter()
    /// Namespaces of the last pass whose log a reader still needs beyond their policy.
    public let heldBack = Gauge()

    public init() {}
}

/// Shortens logs according to `pathmirror.retention` and removes old names of writes: one thread, which connects for
/// each pass. Among many gateways, only one at a time does each of the two tasks.
public final class RetentionService: Sendable {
    private let stopping: Condition<Bool>
    private let connection = MutexBox<PostgresCancelHandle?>(nil)
    private let thread: Thread
    public let metrics: RetentionMetrics

    /// Starts the thread. The database may be unavailable at first.
    ///
    /// - Parameter servers: decides which database servers are accepted; shared by everything in this program that uses
    ///   the database.
    public init(
        url: PostgresURL, settings: RetentionSettings, connectionSettings: LogConnection.Settings, logger: Logger,
        metrics: RetentionMetrics = RetentionMetrics(), servers: ServerFence = ServerFence()
    ) {
        let stopping = Condition(false)
        self.stopping = stopping
        self.metrics = metrics
        let keeper = RetentionKeeper(
            url: url, settings: settings, connectionSettings: connectionSettings, logger: logger, metrics: metrics,
            servers: servers, stopping: stopping, connection: connection)
        thread = Thread(name: "retention") { keeper.run() }
    }

    /// Stops at once: the work in progress is rolled back, and the next pass repeats it.
    public func stop() {
        stopping.broadcast { $0 = true }
        connection.withLock { $0?.abandon() }
        thread.join()
    }
}
