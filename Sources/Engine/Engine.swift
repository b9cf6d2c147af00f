public import LogStore
public import Postgres
public import Runtime
public import Tree

/// The heart of a gateway: the namespaces in memory, the committers that turn writes into log entries, and the tail that
/// follows what other gateways write. Start it once; any thread may use it.
public final class Engine: Sendable {
    private let core: EngineCore
    private let wake: WakeHandle
    private let reader: LogReader
    /// Reads logs for those who want them whole.
    public let logs: LogReadPool
    /// The lease under which realtime sessions begin.
    public let leases: GatewayLeases
    /// What is executed when realtime sessions end.
    public let disconnects: DisconnectKeeper
    /// What the lease's thread is to do.
    private let jobs: LeaseJobs
    private let threads: [Thread]
    private let largeWriter: Thread

    /// Starts the threads; the database may be absent, and come later.
    ///
    /// - Parameters:
    ///   - servers: which servers are gone on with; one for all that this program does with the database. Its own if nil.
    ///   - budget: what trees may take of memory, shared with engines of other databases. What the settings say if nil.
    ///   - placement: is kept as the database says, where that is the home.
    public init(
        url: PostgresURL, settings: EngineSettings = EngineSettings(),
        connectionSettings: LogConnection.Settings = LogConnection.Settings(), metrics: EngineMetrics, logger: Logger,
        servers: ServerFence? = nil, budget: TreeBudget? = nil, placement: PlacementMap? = nil
    ) throws(PostgresError) {
        let core = EngineCore(
            url: url, settings: settings, connectionSettings: connectionSettings, metrics: metrics, logger: logger,
            servers: servers, budget: budget, placement: placement)
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
        // All of them first: where one can't be had, no thread has begun.
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

    /// Waits until the database has answered; at most so long.
    public func waitUntilConnected(milliseconds: Milliseconds) {
        let deadline = Clock.monotonicMilliseconds + milliseconds
        while !core.health.isUp, Clock.monotonicMilliseconds < deadline { core.pause(milliseconds: 2) }
    }

    /// What the engine hears of its database, for others that follow it.
    public var announcements: Announcements { core.announcements }
    public var metrics: EngineMetrics { core.metrics }
    public var health: DatabaseHealth { core.health }
    /// Which of the program's databases it is, and its name; see `EngineSettings`.
    public var database: Int { core.settings.database }
    public var databaseName: String { core.settings.databaseName }
    /// What kept each committer from all else.
    public var stretches: [StretchMeter] { core.stretches }

    /// The namespace, if it is in use already.
    public func liveNamespace(_ name: String) -> LiveNamespace? { core.namespaces.live(name) }

    /// A namespace of this name is about to be looked for here, having been in another database: what is in memory, or is being read, is
    /// what it was here before, and nobody gets it any more. A committer then ends it for who listens.
    ///
    /// - Parameter wasAway: false where it may have been here all the time: then it is compared with the database only.
    public func expect(_ name: String, wasAway: Bool) { core.namespaces.expect(name, wasAway: wasAway)?.suspect() }

    public var liveNamespaces: [LiveNamespace] { core.namespaces.all }

    /// What the namespaces in memory take of it, and what they may.
    public var memory: MemoryFacts {
        MemoryFacts(
            namespaces: core.namespaces.count, bytes: core.memory.total.bytes, budget: core.memory.budget,
            waitingLoads: core.loads.count, pages: core.memory.pages?.facts)
    }

    /// Calls back with the namespace once it is loaded: at once where it is in use, else from another thread.
    public func withNamespace(
        _ name: String, _ body: @escaping @Sendable (Result<LiveNamespace, EngineError>) -> Void
    ) {
        core.withNamespace(name, body)
    }

    /// Calls back with the namespace, or with nil if its rules refuse the request whatever the tree holds. The tree is not read for a
    /// request that the rules refuse.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread; not called if the namespace is loaded.
    public func withNamespace(
        _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ body: @escaping @Sendable (Result<LiveNamespace?, EngineError>) -> Void
    ) {
        core.withNamespace(name, unless: isRefused, body)
    }

    /// Reads entries after one seq and up to another from the log, page by page, on another thread. `each` gets a page, its
    /// entries' batches, and the seq before it (a page that doesn't begin right behind it: what lies between is not
    /// retained) and says whether to go on. Fails where the entry at `after` is not the one that is meant, by its batch.
    ///
    /// - Parameter patience: for how long a lost database is waited for; then the reading goes on where it was.
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

    /// Sends the other gateways of this database something short: each hears it soon, once at most. Dropped where the
    /// database is away, and where it is too long.
    public func tellPeers(_ text: String) {
        jobs.add(.tell(text))
    }

    /// Called with what other gateways tell, on the tail's thread; must return soon.
    public func onPeerMessage(_ body: @escaping @Sendable (_ sender: String, _ text: String) -> Void) {
        core.peers.onMessage(body)
    }

    /// Refuses new writes, commits those that wait (for so long), and ends the threads.
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
                // The large writer waits for what becomes of it.
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
