public import LogStore
public import Postgres
public import Runtime
public import Tree

/// The core of a gateway: the namespaces in memory, the committers that turn writes into log entries, and the tail that
/// follows the writes of other gateways. Start it once; any thread may use it.
public final class Engine: Sendable {
    private let core: EngineCore
    private let wake: WakeHandle
    private let reader: LogReader
    /// Reads whole logs for consumers.
    public let logs: LogReadPool
    /// The lease under which realtime sessions begin.
    public let leases: GatewayLeases
    /// The onDisconnect operations that are executed when realtime sessions end.
    public let disconnects: DisconnectKeeper
    /// The jobs of the lease's thread.
    private let jobs: LeaseJobs
    private let threads: [Thread]
    private let largeWriter: Thread

    /// Starts the threads. The database may be unavailable at first.
    ///
    /// - Parameters:
    ///   - servers: decides which database servers are accepted; shared by everything in this program that uses the
    ///     database. The engine creates one if nil.
    ///   - budget: the memory budget for trees, shared with the engines of other databases. Taken from the settings if
    ///     nil.
    ///   - placement: is updated from the database if the engine serves the primary database.
    ///   - accounts: the same for the service accounts.
    public init(
        url: PostgresURL, settings: EngineSettings = EngineSettings(),
        connectionSettings: LogConnection.Settings = LogConnection.Settings(), metrics: EngineMetrics, logger: Logger,
        servers: ServerFence? = nil, budget: TreeBudget? = nil, placement: PlacementMap? = nil,
        accounts: ServiceAccountList? = nil
    ) throws(PostgresError) {
        let core = EngineCore(
            url: url, settings: settings, connectionSettings: connectionSettings, metrics: metrics, logger: logger,
            servers: servers, budget: budget, placement: placement, accounts: accounts)
        let wake = try WakeHandle()
        let reader = LogReader(core)
        self.core = core
        self.wake = wake
        self.reader = reader
        let logs = LogReadPool(core, settings.logReads)
        self.logs = logs
        let leases = GatewayLeases()
        self.leases = leases
        let jobs = LeaseJobs()
        self.jobs = jobs
        let disconnects = DisconnectKeeper(jobs)
        self.disconnects = disconnects
        // Open all handles first: if one fails, no thread has been started.
        var wakes: [WakeHandle] = []
        for _ in 0..<settings.committers { wakes.append(try WakeHandle()) }
        var threads = wakes.enumerated().map { index, wake in
            Thread(name: "committer-\(index)") { Committer(core, index: index, wake: wake).run() }
        }
        let host = core.makeHost()
        for index in 0..<settings.loaders {
            threads.append(Thread(name: "loader-\(index)") { Loader(core, host, index: index).run() })
        }
        threads.append(Thread(name: "memory") { core.memory.run(core.health) })
        threads.append(Thread(name: "tail") { Tail(core, wake: wake).run() })
        threads.append(Thread(name: "log-reader") { reader.run() })
        for index in 0..<settings.logReaders {
            threads.append(Thread(name: "log-stream-\(index)") { logs.run() })
        }
        threads.append(Thread(name: "sessions") { LeaseThread(core, leases, disconnects, jobs).run() })
        threads.append(Thread(name: "watch") { BlockerWatch(core).run() })
        largeWriter = Thread(name: "large-writes") { LargeWriter(core).run() }
        self.threads = threads
    }

    /// Waits until the database has answered, at most `milliseconds`.
    public func waitUntilConnected(milliseconds: Milliseconds) {
        let deadline = Clock.monotonicMilliseconds + milliseconds
        while !core.health.isUp, Clock.monotonicMilliseconds < deadline { core.pause(milliseconds: 2) }
    }

    /// The announcements that the engine receives from its database, for mirrors, feeds and other followers.
    public var announcements: Announcements { core.announcements }
    public var metrics: EngineMetrics { core.metrics }
    public var health: DatabaseHealth { core.health }
    /// The number of the engine's database within the program, and its name; see `EngineSettings`.
    public var database: Int { core.settings.database }
    public var databaseName: String { core.settings.databaseName }
    /// The stalls of each committer.
    public var stallMeters: [StallMeter] { core.stallMeters }

    /// Returns the namespace if it is in memory.
    public func liveNamespace(_ name: String) -> LiveNamespace? { core.namespaces.live(name) }

    /// Prepares for a namespace of this name that arrives from another database. The namespace in memory, or being
    /// read, is the former one of this database, and requests no longer get it. A committer then ends it for its
    /// listeners.
    ///
    /// - Parameter wasAway: false if the namespace may have been here all the time; then it is only compared with the
    ///   database.
    public func expect(_ name: String, wasAway: Bool) { core.namespaces.expect(name, wasAway: wasAway)?.suspect() }

    public var liveNamespaces: [LiveNamespace] { core.namespaces.all }

    /// The memory use and the budget of the namespaces in memory.
    public var memory: MemoryFacts {
        MemoryFacts(
            namespaces: core.namespaces.count, bytes: core.memory.total.bytes, budget: core.memory.budget,
            waitingLoads: core.loads.count, pages: core.memory.pages?.facts)
    }

    /// Calls back with the namespace once it is loaded: immediately if it is in memory, otherwise from another thread.
    public func withNamespace(
        _ name: String, _ body: @escaping @Sendable (Result<LiveNamespace, EngineError>) -> Void
    ) {
        core.withNamespace(name, body)
    }

    /// Calls back with the namespace, or with nil if its rules refuse the request independently of the tree. The tree
    /// is not read for a request that the rules refuse.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread; not called if the
    ///   namespace is loaded.
    public func withNamespace(
        _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ body: @escaping @Sendable (Result<LiveNamespace?, EngineError>) -> Void
    ) {
        core.withNamespace(name, unless: isRefused, body)
    }

    /// Reads the log's entries after one seq up to another, page by page, on another thread. `each` receives a page,
    /// the batches of its entries and the seq before the page, and returns whether to continue. If a page does not
    /// start directly after that seq, the entries in between are no longer retained. Fails if `isMeant` rejects the
    /// batch of the entry at `after`.
    ///
    /// - Parameter patience: milliseconds to wait for a lost database, after which reading resumes at the last
    ///   position.
    public func readLog(
        _ namespace: Int64, after: Int64, through: Int64, patience: Milliseconds,
        isMeant: (@Sendable (_ batch: [UInt8]) -> Bool)? = nil,
        each: @escaping @Sendable (_ entries: [Entry], _ batches: [[UInt8]], _ after: Int64) -> Bool,
        completion: @escaping @Sendable (Result<Void, EngineError>) -> Void
    ) {
        reader.add(
            LogReader.Request(
                namespace: namespace, after: after, through: through,
                deadline: Clock.monotonicMilliseconds + patience, isMeant: isMeant, each: each,
                completion: completion))
    }

    /// Sends a short message to the other gateways of this database. Each receives it soon, at most once.
    /// The message is dropped if the database is away or the text is too long.
    public func notifyPeers(_ text: String) {
        jobs.add(.notify(text))
    }

    /// Sets the function that receives the messages of other gateways, on the tail's thread; it must return soon.
    public func onPeerMessage(_ body: @escaping @Sendable (_ sender: String, _ text: String) -> Void) {
        core.peers.onMessage(body)
    }

    /// Rejects new writes, commits the waiting ones for at most `milliseconds`, and ends the threads.
    public func stop(milliseconds: Milliseconds) {
        disconnects.waitUntilDone(milliseconds: milliseconds)
        for namespace in core.namespaces.all { namespace.refuseWrites(.stopping) }
        let deadline = Clock.monotonicMilliseconds + milliseconds
        while Clock.monotonicMilliseconds < deadline,
            !core.large.isIdle || core.namespaces.all.contains(where: { !$0.isIdle })
        {
            core.pause(milliseconds: 2)
        }
        core.beginStop()
        wake.wake()
        reader.wake()
        logs.stop()
        jobs.stop()
        for thread in threads { thread.join() }
        for namespace in core.namespaces.all {
            for item in namespace.takeAllWaiting() {
                // The large writer waits for the outcome.
                if let large = item.large {
                    large.finish(.failed(.stopping))
                } else {
                    item.sink.complete([(item.token, .failed(.stopping))])
                }
            }
        }
        largeWriter.join()
    }
}
