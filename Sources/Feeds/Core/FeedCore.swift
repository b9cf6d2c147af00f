import LogStore
import Postgres
public import Runtime
import Synchronization

/// The state shared by the threads that run feeds.
final class FeedCore: Sendable {
    let url: PostgresURL
    let settings: FeedSettings
    let logger: Logger
    let trees: any TreeSource
    let memory: FeedMemory
    let lease = FeedLease()
    /// The pool that stops sinks.
    let closers = WorkerPool(name: "sink-closer", threads: 1)
    /// The addresses on which the gateway listens, or nil before it listens.
    private let endpoint = Condition<FeedEndpoint?>(nil)
    /// The key that authenticates requests forwarded by other gateways. A new key is generated at every start.
    let forwardingKey: Secret<[UInt8]>
    private let stopping = Condition(false)
    private let connections = OpenConnections()
    private let servers: ServerFence
    private let connectionSettings: LogConnection.Settings
    /// How long the server may stay silent during a statement.
    static let silenceMilliseconds: Milliseconds = 10_000

    init(
        url: PostgresURL, settings: FeedSettings, connectionSettings: LogConnection.Settings, trees: any TreeSource,
        memory: FeedMemory, logger: Logger, servers: ServerFence
    ) {
        self.url = url
        self.servers = servers
        var generator = SystemRandomNumberGenerator()
        forwardingKey = Secret((0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) })
        var connectionSettings = connectionSettings
        connectionSettings.connection.statementTimeoutMilliseconds = Self.silenceMilliseconds
        // If a gateway freezes within a transaction, its lock on the feed's row must not block the gateway that takes the feed over.
        connectionSettings.connection.sessionSettings["idle_in_transaction_session_timeout"] =
            "\(settings.freshMilliseconds)"
        self.connectionSettings = connectionSettings
        self.settings = settings
        self.trees = trees
        self.memory = memory
        self.logger = logger
    }

    var stopsNow: Bool { stopping.withLock { $0 } }

    func stop() {
        stopping.broadcast { $0 = true }
        connections.abandonAll()
    }

    /// Stops the last thread. Call it after the other threads have ended.
    func close() { closers.stop() }

    /// Records the addresses on which the gateway listens.
    func listens(at listening: FeedEndpoint) { endpoint.broadcast { $0 = listening } }

    /// Returns the address and key with which other gateways reach this gateway. Blocks until the gateway listens; returns nil if
    /// the service stops first.
    ///
    /// - Parameter host: The address from which this gateway connects to the database, or nil if the database is on this machine.
    func reach(from host: String?) -> FeedWorkerReach? {
        while !stopsNow {
            guard let listening = endpoint.wait(milliseconds: 100, until: { $0 }) else { continue }
            guard settings.address.isEmpty else {
                // The operator configured this address. It may be a proxy's, so its certificate is verified as usual.
                return FeedWorkerReach(address: settings.address, key: forwardingKey)
            }
            let (address, isSecure) = listening.address(from: host)
            return FeedWorkerReach(address: address, key: forwardingKey, pin: isSecure ? listening.pin() : nil)
        }
        return nil
    }

    /// Returns the public key that the worker's row should contain, or nil if the row has none `registered`.
    func pin(insteadOf registered: [UInt8]?) -> [UInt8]? {
        guard registered != nil else { return nil }
        return endpoint.withLock { $0 }?.pin()
    }

    /// Waits for a time. Returns early if the service stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Opens a connection to a server that accepts writes and is not older than any primary that this gateway has seen.
    func connect(_ purpose: String) throws -> LogConnection {
        let opened = try servers.open(url.withApplicationName("pathmirror \(purpose)"), connectionSettings)
        connections.add(opened.cancelHandle)
        if stopsNow { opened.cancelHandle.abandon() }
        return opened
    }
}

/// Settings for running feeds. Every field has a default.
public struct FeedSettings: Sendable {
    /// How often the worker writes its heartbeat, checks the heartbeats of other workers, and looks for feeds without a worker.
    public var heartbeatMilliseconds: Milliseconds = 1_000
    /// How long a worker's heartbeat must stand still before other workers take its feeds over.
    public var expiryMilliseconds: Milliseconds = 5_000
    /// The first and the longest pause before a failed operation is retried.
    public var firstRetryMilliseconds: Milliseconds = 200
    public var maxRetryMilliseconds: Milliseconds = 30_000
    /// The number of threads that read the log for feeds. Each thread uses one connection.
    public var readers = 2
    /// The number of entries read at once.
    public var pageEntries = 1_000
    /// The number of entries between stored snapshots of the tree, so that a takeover need not read the whole log. A tree with more
    /// rows than this is stored after as many entries as it has rows.
    public var entriesBetweenTrees: Int64 = 200_000
    /// How long after its last step a shared reader keeps its trees while memory is short and none of its feeds has room for messages.
    public var idleReaderMilliseconds: Milliseconds = 5_000
    /// A shared reader that has rebuilt its tree keeps it for at least this multiple of the time that the rebuild took. If
    /// consumers are slow, rebuilding trees then takes only a small part of the time.
    public var keepingFactor: Milliseconds = 16
    /// How long one step may rebuild trees before the namespace's other shared readers get their turn.
    public var wakingMilliseconds: Milliseconds = 200
    /// The maximum number of messages of a feed that are delivered or waiting, and their approximate maximum size in memory in bytes.
    public var windowMessages = 10_000
    public var windowBytes = 64 << 20
    /// The approximate maximum size in memory of the messages of all feeds of a gateway, in bytes.
    public var allWindowsBytes: Int { max(512 << 20, 4 * windowBytes) }
    /// Whether creating a feed also creates its namespace if that does not exist. False in a database that contains only
    /// namespaces placed there.
    public var createsNamespaces = true
    /// The maximum number of messages in the answer to one pull.
    public var maxPull = 1_000
    /// How long a request waits for a gateway to take the feed.
    public var ownerWaitMilliseconds: Milliseconds = 5_000
    /// The maximum number of pulls that wait for messages, over all feeds. Namespaces share it, then the feeds of each namespace; a
    /// single feed may use a quarter.
    public var maxWaitingPulls = 20_000
    /// The URL at which other gateways reach this gateway, such as `http://10.0.0.5:9000`. If empty, the gateway uses the address
    /// from which it connects to the database, and the port on which it listens.
    public var address = ""

    public init() {}

    /// How long after it requested its last confirmed heartbeat a worker may deliver messages, in milliseconds. Shorter than the
    /// time after which other workers take over.
    var freshMilliseconds: Milliseconds { expiryMilliseconds * 3 / 5 }
}

/// This gateway's right to run feeds: its row of `feed_worker`, and when the row was last confirmed. Usable on any thread.
///
/// Other workers consider a worker dead when its heartbeat has stood still for some seconds by their own clocks. A worker therefore
/// stops delivering earlier, by its own clock, if its last confirmed heartbeat is too old. This also covers a process that was frozen.
final class FeedLease: Sendable {
    private struct State {
        var worker: [UInt8]?
        var freshUntil: Int64 = 0
    }
    private let state = Mutex(State())

    /// The worker's id, or nil if the gateway has no confirmed row.
    var worker: [UInt8]? { state.withLock { $0.worker } }

    /// Returns whether the gateway may deliver messages now.
    func isFresh(at now: Int64) -> Bool { state.withLock { $0.worker != nil && now < $0.freshUntil } }

    /// Records that the database has confirmed the worker's row.
    ///
    /// - Parameter time: The time until which the confirmation is valid, counted from the request.
    func confirmed(_ worker: [UInt8], until time: Int64) {
        state.withLock { $0 = State(worker: worker, freshUntil: time) }
    }

    /// Records that the worker's row has been deleted.
    func lost() { state.withLock { $0 = State() } }
}
