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
    /// The port that the gateway listens on, once it does.
    private let port = Condition<UInt16?>(nil)
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
    func listens(on number: UInt16) { port.broadcast { $0 = number } }

    /// Where other gateways reach this one, once it listens. Nil when the service stops before.
    func address(from host: String?) -> String? {
        while !stopsNow {
            guard let number = port.wait(milliseconds: 100, until: { $0 }) else { continue }
            guard settings.address.isEmpty else { return settings.address }
            let host = host ?? "127.0.0.1"
            return "http://\(host.contains(":") ? "[\(host)]" : host):\(number)"
        }
        return nil
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
