import LogStore
import Postgres
public import Runtime
import Synchronization

/// What the threads that work feeds share.
final class FeedCore: Sendable {
    let url: PostgresURL
    let settings: FeedSettings
    let logger: Logger
    let trees: any TreeSource
    let memory: FeedMemory
    let lease = FeedLease()
    /// Stops sinks.
    let closers = WorkerPool(name: "sink-closer", threads: 1)
    /// Where the gateway listens, once it does.
    private let endpoint = Condition<FeedEndpoint?>(nil)
    /// Authenticates what other gateways forward to this one; different at every start.
    let forwardingKey: Secret<[UInt8]>
    private let stopping = Condition(false)
    private let connections = OpenConnections()
    private let servers: ServerFence
    private let connectionSettings: LogConnection.Settings
    /// How long a statement may be silent.
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
        // A gateway that freezes in the middle of something must not keep a feed's row from who takes the feed over.
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

    /// Ends the last thread, once the others have ended.
    func close() { closers.stop() }

    /// The gateway listens.
    func listens(at place: FeedEndpoint) { endpoint.broadcast { $0 = place } }

    /// Where other gateways reach this one, once it listens. Nil when the service stops before.
    ///
    /// - Parameter host: where this gateway's connection to the database comes from; nil where that is on this machine.
    func reach(from host: String?) -> FeedWorkerReach? {
        while !stopsNow {
            guard let place = endpoint.wait(milliseconds: 100, until: { $0 }) else { continue }
            guard settings.address.isEmpty else {
                // A name that the operator has given, perhaps a proxy's: its certificate is checked as usual.
                return FeedWorkerReach(address: settings.address, key: forwardingKey)
            }
            let (address, isSecure) = place.address(from: host)
            return FeedWorkerReach(address: address, key: forwardingKey, pin: isSecure ? place.pin() : nil)
        }
        return nil
    }

    /// The public key that a worker's row is to have, where it has `registered`.
    func pin(insteadOf registered: [UInt8]?) -> [UInt8]? {
        guard registered != nil else { return nil }
        return endpoint.withLock { $0 }?.pin()
    }

    /// Waits; ends early when the service stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Opens a connection to a server that may be written to and is not older than any that was met before.
    func connect(_ purpose: String) throws -> LogConnection {
        let opened = try servers.open(url.withApplicationName("pathmirror \(purpose)"), connectionSettings)
        connections.add(opened.cancelHandle)
        if stopsNow { opened.cancelHandle.abandon() }
        return opened
    }
}

/// How feeds are worked; every field has its default.
public struct FeedSettings: Sendable {
    /// How often the worker gives a sign of life, looks at the others, and looks for feeds that nobody works.
    public var beatMilliseconds: Milliseconds = 1_000
    /// How long a worker's signs of life must have stood still until others take its feeds over.
    public var expiryMilliseconds: Milliseconds = 5_000
    /// The first and the longest pause before something broken is tried again.
    public var firstRetryMilliseconds: Milliseconds = 200
    public var maxRetryMilliseconds: Milliseconds = 30_000
    /// Threads that read the log for feeds, each with a connection.
    public var readers = 2
    /// Entries read at once.
    public var pageEntries = 1_000
    /// After so many entries the tree is kept as a snapshot, so that a feed can be taken over without the whole log: or after as many as
    /// the tree has rows, where those are more.
    public var entriesBetweenTrees: Int64 = 200_000
    /// How long after its last step a lane keeps its trees although memory is short and its feeds have no room.
    public var idleLaneMilliseconds: Milliseconds = 5_000
    /// A lane whose tree was made again keeps it for at least so many times as long as that took, so that feeds whose messages are taken
    /// slowly spend a small part of the time on trees.
    public var keepingFactor: Milliseconds = 16
    /// How long one step makes trees again before the namespace's other lanes have their turn.
    public var wakingMilliseconds: Milliseconds = 200
    /// Messages of a feed that are out or wait, at most, and about how many bytes they may cost in memory.
    public var windowMessages = 10_000
    public var windowBytes = 64 << 20
    /// About how many bytes the messages of all feeds of a gateway may cost together.
    public var allWindowsBytes: Int { max(512 << 20, 4 * windowBytes) }
    /// Whether a feed for a namespace that is not there makes it. Not in a database where only those are that were placed there.
    public var createsNamespaces = true
    /// The most messages that one pull is given.
    public var maxPull = 1_000
    /// How long a request waits until a gateway works the feed.
    public var ownerWaitMilliseconds: Milliseconds = 5_000
    /// Requests that wait for messages, of all feeds together. Namespaces share them, then the feeds of each namespace: a feed alone has a quarter.
    public var maxWaitingPulls = 20_000
    /// Where other gateways reach this one, such as `http://10.0.0.5:9000`; empty: where this one's connection to the database comes
    /// from, at the port that it listens on.
    public var address = ""

    public init() {}

    /// For so long after it asked for its last sign of life a worker may hand out messages: less than others wait.
    var freshMilliseconds: Milliseconds { expiryMilliseconds * 3 / 5 }
}

/// This gateway's right to work feeds: its row of `feed_worker`, and how lately that was confirmed. Any thread may ask.
///
/// Others take a worker for dead when its beats have stood still for some seconds by their own clocks. So a worker hands out nothing when
/// its last confirmed beat is older than a part of that, by its own clock: also when it was frozen meanwhile.
final class FeedLease: Sendable {
    private struct State {
        var worker: [UInt8]?
        var freshUntil: Int64 = 0
    }
    private let state = Mutex(State())

    /// The worker's id, while it has one.
    var worker: [UInt8]? { state.withLock { $0.worker } }

    /// Whether messages may be handed out now.
    func isFresh(at now: Int64) -> Bool { state.withLock { $0.worker != nil && now < $0.freshUntil } }

    /// The database has confirmed the worker's row.
    ///
    /// - Parameter time: until when that is good, counted from when it was asked.
    func confirmed(_ worker: [UInt8], until time: Int64) {
        state.withLock { $0 = State(worker: worker, freshUntil: time) }
    }

    /// The row is gone.
    func lost() { state.withLock { $0 = State() } }
}
