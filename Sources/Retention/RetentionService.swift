public import LogStore
public import Postgres
public import Runtime

/// How often logs are looked at, and what is counted.
public struct RetentionSettings: Sendable {
    /// Between two looks; 0 for none by this gateway.
    public var intervalMilliseconds: Milliseconds = 60_000
    /// Namespaces that one look is for; the next one goes on behind them.
    public var namespacesAtOnce: Int64 = 1_000

    /// How long the names of a client's writes are kept after its last one.
    public var rememberedWriteDays: Int64 = 30
    /// Between two looks for names of writes that are to be forgotten, by this gateway or another one.
    public var forgettingMilliseconds: Milliseconds = 60_000

    public init() {}
}

/// What this gateway has done about logs.
public final class RetentionMetrics: Sendable {
    public let droppedEntries = Counter()
    public let failures = Counter()
    /// Namespaces of the last look whose log somebody still needs more of than their policy keeps.
    public let heldBack = Gauge()

    public init() {}
}

/// Shortens logs by itself, as `pathmirror.retention` says, and forgets names of writes: one thread, which connects for each look. Of
/// many gateways one does each of the two at a time.
public final class RetentionService: Sendable {
    private let stopping: Condition<Bool>
    private let connection = MutexBox<PostgresCancelHandle?>(nil)
    private let thread: Thread
    public let metrics: RetentionMetrics

    /// Starts; the database may be absent, and come later.
    ///
    /// - Parameter servers: which servers are gone on with; one for all that this program does with the database.
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

    /// Ends the work at once: what was under way is rolled back, and done again by the next look.
    public func stop() {
        stopping.broadcast { $0 = true }
        connection.withLock { $0?.abandon() }
        thread.join()
    }
}
