import LogStore
import Postgres
import Runtime

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
