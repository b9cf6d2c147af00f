import LogStore
import Postgres
import Runtime
import Synchronization

/// What the engine's threads share.
final class EngineCore: Sendable {
    let url: PostgresURL
    let settings: EngineSettings
    let connectionSettings: LogConnection.Settings
    let metrics: EngineMetrics
    let logger: Logger
    let health = DatabaseHealth()
    let servers: ServerFence
    /// What the home says of the other databases; nil where this is not the home, or nobody asks.
    let placement: PlacementMap?
    let connections = OpenConnections()
    let recent = RecentPositions()
    let namespaces: NamespaceTable
    let peers = PeerMailbox()
    let announcements = Announcements()
    let news = CommitNews()
    let blockers = DatabaseStays()
    let large = LargeQueue()
    let rules = SharedRules()
    let loads: LoadQueue
    let memory: TreeMemory
    /// One a committer.
    let stretches: [StretchMeter]
    let jobs: CommitterJobs
    /// Waited on by those who pause.
    private let stopping = Condition(false)
    private let isStopping = Atomic<Bool>(false)
    private let histories = Atomic<Int>(0)

    init(
        url: PostgresURL, settings: EngineSettings, connectionSettings: LogConnection.Settings, metrics: EngineMetrics,
        logger: Logger, servers: ServerFence? = nil, budget: TreeBudget? = nil, placement: PlacementMap? = nil
    ) {
        self.url = url
        self.placement = placement
        self.servers = servers ?? ServerFence(logger)
        self.settings = settings
        var connectionSettings = connectionSettings
        // The server gives up before this side does: then a statement fails, instead of the connection. Behind an import
        // that holds a namespace's lock, writes are tried until their deadline, and fail as unavailable.
        let silence = Self.silenceMilliseconds(settings)
        connectionSettings.connection.statementTimeoutMilliseconds = silence
        connectionSettings.connection.connectTimeoutMilliseconds = min(
            connectionSettings.connection.connectTimeoutMilliseconds, Self.mostConnectMilliseconds)
        connectionSettings.connection.sessionSettings["lock_timeout"] =
            "\(min(settings.commitDeadlineMilliseconds, silence - 1_000))"
        // A gateway that vanishes while it holds a namespace's lock must not keep it until TCP notices.
        connectionSettings.connection.sessionSettings["idle_in_transaction_session_timeout"] =
            "\(max(1, settings.commitDeadlineMilliseconds / 2))"
        self.connectionSettings = connectionSettings
        self.metrics = metrics
        self.logger = logger
        jobs = CommitterJobs(committers: settings.committers)
        namespaces = NamespaceTable()
        loads = LoadQueue(loaders: settings.loaders, maxWaiting: settings.maxWaitingLoads)
        memory = TreeMemory(
            budget ?? TreeBudget(bytes: settings.treeMemoryBytes), namespaces, metrics, logger,
            recentMilliseconds: settings.recentUseMilliseconds)
        stretches = (0..<settings.committers).map { index in
            let name = "\(settings.databaseName.isEmpty ? "" : "\(settings.databaseName)/")committer-\(index)"
            return StretchMeter(name: name, tooLongMilliseconds: settings.longStretchMilliseconds) {
                kind, nanoseconds, count in
                logger.longStretch(of: name, kind, nanoseconds, count)
            }
        }
    }

    /// Changes when the database was found to have another history than this gateway had followed.
    var historyNumber: Int { histories.load(ordering: .acquiring) }

    func noteOtherHistory() { histories.wrappingAdd(1, ordering: .releasing) }

    var stopsNow: Bool { isStopping.load(ordering: .acquiring) }

    func beginStop() {
        isStopping.store(true, ordering: .releasing)
        stopping.broadcast { $0 = true }
        blockers.stop()
        large.stop()
        for name in loads.stop() { namespaces.loaded(name, .failure(.stopping)) }
        memory.stop()
        jobs.stop()
    }

    /// Who works for the namespaces of this engine.
    func makeHost() -> NamespaceHost {
        NamespaceHost(
            schedule: { [self] in jobs.add(.work($0)) }, prepare: { [self] in large.add($0, in: $1) },
            recount: { [self] in memory.recount($0) }, needRoom: { [self] in memory.needRoom() })
    }

    /// Calls back with the namespace once it is loaded: at once where it is in use, else from another thread.
    func withNamespace(_ name: String, _ body: @escaping NamespaceTable.Completion) {
        request(name, unless: nil, body)
    }

    /// Calls back with the namespace, or with nil if its rules refuse the request whatever the tree holds. The tree is not read for a
    /// request that the rules refuse.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread; not called if the namespace is loaded.
    func withNamespace(
        _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ body: @escaping @Sendable (Result<LiveNamespace?, EngineError>) -> Void
    ) {
        let refusal = EarlyRefusal { rules in
            guard isRefused(rules) else { return false }
            body(.success(nil))
            return true
        }
        request(name, unless: refusal) { body($0.map(Optional.some)) }
    }

    private func request(
        _ name: String, unless refusal: EarlyRefusal?, _ body: @escaping NamespaceTable.Completion
    ) {
        guard namespaces.request(name, unless: refusal, body) else { return }
        if let error = loads.add(name) { namespaces.loaded(name, .failure(error)) }
    }

    /// Waits; ends early when the engine stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Something is committed: parts of this program hear of it now, everybody else when the tail announces it. Never blocks.
    func tellOfCommit(to namespace: Int64, head: Int64) {
        announcements.tell(.commit(namespace: namespace, head: head))
        news.add(namespace, head: head)
    }

    func databaseFailed(_ error: LogStoreError, isSilent: Bool = false) {
        if health.markDown("\(error)", isSilent: isSilent, isTold: error.isRefusedServer) {
            logger.error("database lost", [("error", "\(error)")])
            // The tail looks whether it is.
            news.wakeReader()
        }
    }

    func databaseAnswered() {
        if health.markUp() { logger.notice("database connected") }
    }
}

extension EngineCore {
    /// How long a connection may be silent while it is waited for, unless more was asked of it than usual. Two of these
    /// pass until a write that waits for the database is given up.
    static func silenceMilliseconds(_ settings: EngineSettings) -> Milliseconds {
        max(3_000, settings.commitDeadlineMilliseconds / 2)
    }

    /// The most that opening a connection may take.
    static let mostConnectMilliseconds: Milliseconds = 5_000

    /// How long the tail waits for an answer until the database counts as lost.
    var lookMilliseconds: Milliseconds { min(max(3_000, 2 * settings.pollMilliseconds), 10_000) }

    /// Opens a connection for one of the engine's threads, to a server that may be written to and is not older than any that
    /// was met before.
    ///
    /// - Parameter deadline: the monotonic millisecond at which nobody cares any more.
    func connect(_ name: String, by deadline: Milliseconds? = nil) throws(LogStoreError) -> LogConnection {
        var settings = connectionSettings
        if let deadline {
            let left = max(500, deadline - Clock.monotonicMilliseconds)
            settings.connection.connectTimeoutMilliseconds = min(
                left, settings.connection.connectTimeoutMilliseconds)
        }
        let connection = try servers.open(url.withApplicationName("pathmirror \(name)"), settings)
        connections.add(connection.cancelHandle)
        return connection
    }

    /// The database has not answered in time, though nothing says that it is gone: what waits for it on other connections,
    /// and has heard nothing since, waits in vain.
    func databaseIsSilent(since moment: Int64, _ error: LogStoreError) {
        databaseFailed(error, isSilent: true)
        let count = connections.abandonSilent(since: moment)
        if count > 0 { logger.warning("connections given up, as the database is silent", [("count", "\(count)")]) }
    }
}

extension EngineCore {
    /// Compares the heads with what this gateway has. Then the database is there, and not before: it may be another one.
    ///
    /// - Parameter isNew: this is the first look on a connection. What goes on from entries that this gateway has may go on
    ///   from others of the same seq as well: a committer has to compare them.
    func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        // Taken before the question: whatever is in them was committed then, and is in the answer.
        // By their ids: whom this refers to meanwhile would not be let go.
        let known = namespaces.all.map { namespace -> (id: Int64, snapshot: (seq: Int64, batch: [UInt8]?)) in
            let snapshot = namespace.snapshot
            return (namespace.id, (snapshot.seq, snapshot.batch))
        }
        var heads: [Int64: (head: Int64, batch: [UInt8]?)] = [:]
        for (id, head, batch) in try connection.heads(known.map(\.id)) { heads[id] = (head, batch) }
        for (id, snapshot) in known {
            // One that was loaded meanwhile is newer, and is only looked at for nothing.
            guard let namespace = namespaces.live(id: id) else { continue }
            guard let now = heads[id], now.head >= snapshot.seq,
                now.head > snapshot.seq || Snapshot.isSame(snapshot.batch, now.batch)
            else {
                namespace.suspect()
                continue
            }
            namespace.headSeen(now.head)
            // Also where a committer could not look yet.
            if namespace.isSuspect || (isNew && now.head > snapshot.seq) { namespace.suspect() }
        }
        // Whoever failed to connect meanwhile is contradicted.
        databaseAnswered()
    }
}
