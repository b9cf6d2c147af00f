import LogStore
import Postgres
import Runtime
import Synchronization

/// State shared by the engine's threads.
final class EngineCore: Sendable {
    let url: PostgresURL
    let settings: EngineSettings
    let connectionSettings: LogConnection.Settings
    let metrics: EngineMetrics
    let logger: Logger
    let health = DatabaseHealth()
    let servers: ServerFence
    /// The placements that the primary database has for the other databases; nil if the engine serves another database,
    /// or if no caller needs them.
    let placement: PlacementMap?
    /// The service accounts in the primary database; nil as for `placement`.
    let accounts: ServiceAccountList?
    let connections = OpenConnections()
    let recent = RecentPositions()
    let namespaces: NamespaceTable
    let peers = PeerMailbox()
    let announcements = Announcements()
    let news = CommitAnnouncer()
    let blockers = ActiveDatabaseCalls()
    let large = LargeQueue()
    let rules = SharedRules()
    let loads: LoadQueue
    let memory: TreeMemory
    /// One meter for each committer.
    let stallMeters: [StallMeter]
    let jobs: CommitterJobs
    /// The condition on which pausing threads wait.
    private let stopping = Condition(false)
    private let isStopping = Atomic<Bool>(false)
    private let histories = Atomic<Int>(0)

    init(
        url: PostgresURL, settings: EngineSettings, connectionSettings: LogConnection.Settings, metrics: EngineMetrics,
        logger: Logger, servers: ServerFence? = nil, budget: TreeBudget? = nil, placement: PlacementMap? = nil,
        accounts: ServiceAccountList? = nil
    ) {
        self.url = url
        self.accounts = accounts
        self.placement = placement
        self.servers = servers ?? ServerFence(logger)
        self.settings = settings
        var connectionSettings = connectionSettings
        // The server's timeout comes before this side's timeout, so a statement fails instead of the connection. While
        // an import holds a namespace's lock, writes are retried until their deadline, and then fail as unavailable.
        let silence = Self.silenceMilliseconds(settings)
        connectionSettings.connection.statementTimeoutMilliseconds = silence
        connectionSettings.connection.connectTimeoutMilliseconds = min(
            connectionSettings.connection.connectTimeoutMilliseconds, Self.mostConnectMilliseconds)
        connectionSettings.connection.sessionSettings["lock_timeout"] =
            "\(min(settings.commitDeadlineMilliseconds, silence - 1_000))"
        // A gateway that vanishes while it holds a namespace's lock must not keep the lock until TCP notices.
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
        stallMeters = (0..<settings.committers).map { index in
            let name = "\(settings.databaseName.isEmpty ? "" : "\(settings.databaseName)/")committer-\(index)"
            return StallMeter(name: name, tooLongMilliseconds: settings.longStallMilliseconds) {
                kind, nanoseconds, count in
                logger.longStall(of: name, kind, nanoseconds, count)
            }
        }
    }

    /// Changes when the gateway finds that the database has another history than the one it followed.
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

    /// Returns the functions by which the engine's namespaces request work.
    func makeHost() -> NamespaceHost {
        NamespaceHost(
            schedule: { [self] in jobs.add(.work($0)) }, prepare: { [self] in large.add($0, in: $1) },
            recount: { [self] in memory.recount($0) }, needRoom: { [self] in memory.needRoom() })
    }

    /// Calls back with the namespace once it is loaded: immediately if it is in memory, otherwise from another thread.
    func withNamespace(_ name: String, _ body: @escaping NamespaceTable.Completion) {
        request(name, unless: nil, body)
    }

    /// Calls back with the namespace, or with nil if its rules refuse the request independently of the tree. The tree
    /// is not read for a request that the rules refuse.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread; not called if the
    ///   namespace is loaded.
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

    /// Pauses the calling thread; returns early when the engine stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Reports a commit: immediately to other parts of this program, and to all others when the tail announces it.
    /// Never blocks.
    func notifyOfCommit(to namespace: Int64, head: Int64) {
        announcements.notify(.commit(namespace: namespace, head: head))
        news.add(namespace, head: head)
    }

    func databaseFailed(_ error: LogStoreError, isSilent: Bool = false) {
        if health.markDown("\(error)", isSilent: isSilent, isReported: error.isRefusedServer) {
            logger.error("database lost", [("error", "\(error)")])
            // The tail checks whether the database is really lost.
            news.wakeReader()
        }
    }

    func databaseAnswered() {
        if health.markUp() { logger.notice("database connected") }
    }
}

extension EngineCore {
    /// Time for which a connection may be silent while a thread waits for it, unless it was given more work than usual.
    /// A write fails after waiting for two of these periods.
    static func silenceMilliseconds(_ settings: EngineSettings) -> Milliseconds {
        max(3_000, settings.commitDeadlineMilliseconds / 2)
    }

    /// Maximum time to open a connection.
    static let mostConnectMilliseconds: Milliseconds = 5_000

    /// Time that the tail waits for an answer before the database counts as lost.
    var lookMilliseconds: Milliseconds { min(max(3_000, 2 * settings.pollMilliseconds), 10_000) }

    /// Opens a connection for one of the engine's threads, to a writable server that is not older than any server met
    /// before.
    ///
    /// - Parameter deadline: the monotonic millisecond after which the connection is no longer needed.
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

    /// Handles a database that has not answered in time although no error shows that it is lost. Abandons the other
    /// connections that have been waiting without an answer since `moment`.
    func databaseIsSilent(since moment: Int64, _ error: LogStoreError) {
        databaseFailed(error, isSilent: true)
        let count = connections.abandonSilent(since: moment)
        if count > 0 {
            logger.warning("connections closed because the database does not answer", [("count", "\(count)")])
        }
    }
}

extension EngineCore {
    /// Compares the heads in the database with the gateway's snapshots, and only then marks the database as available:
    /// it may be another one than before.
    ///
    /// - Parameter isNew: whether this is the first comparison on a connection. A log that continues after this
    ///   gateway's entries may contain other entries at the same seqs, so a committer has to compare them.
    func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        // The snapshots are read before the query, so the answer includes everything that they contain. Only ids are
        // kept: a reference would prevent the eviction of a namespace.
        let known = namespaces.all.map { namespace -> (id: Int64, position: LogPosition) in
            (namespace.id, namespace.snapshot.position)
        }
        var heads: [Int64: (head: LogPosition, following: Following)] = [:]
        for (id, head, following) in try connection.heads(known.map(\.id)) { heads[id] = (head, following) }
        for (id, position) in known {
            // A namespace loaded since then is newer; checking it is harmless.
            guard let namespace = namespaces.live(id: id) else { continue }
            guard let (head, following) = heads[id], head.seq >= position.seq,
                head.seq > position.seq || Snapshot.isSame(position.batch, head.batch)
            else {
                namespace.suspect()
                continue
            }
            namespace.following = following
            namespace.headSeen(head.seq)
            // The namespace is queued again if no committer has been able to check it.
            if namespace.isSuspect || (isNew && head.seq > position.seq) { namespace.suspect() }
        }
        // The answer overrides a connection failure that another thread has reported since.
        databaseAnswered()
    }
}
