import LogStore
import Postgres
import Runtime
import Synchronization

/// What the threads that work feeds share.
final class FeedCore: Sendable {
    let url: PostgresURL
    let settings: FeedSettings
    let logger: Logger
    let trees: any TreeSource
    let lease = FeedLease()
    /// The port that the gateway listens on, once it does.
    private let port = Condition<UInt16?>(nil)
    private let stopping = Condition(false)
    private let connections = Mutex<[ObjectIdentifier: PostgresCancelHandle]>([:])
    /// How long a statement may be silent.
    static let silenceMilliseconds: Milliseconds = 10_000

    init(url: PostgresURL, settings: FeedSettings, trees: any TreeSource, logger: Logger) {
        self.url = url
        self.settings = settings
        self.trees = trees
        self.logger = logger
    }

    var stopsNow: Bool { stopping.withLock { $0 } }

    func stop() {
        stopping.broadcast { $0 = true }
        abandonConnections()
    }

    func abandonConnections() {
        for handle in connections.withLock({ Array($0.values) }) { handle.abandon() }
    }

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

    func connect(_ purpose: String) throws -> LogConnection {
        let opened = try LogConnection(url.withApplicationName("pathmirror \(purpose)"))
        connections.withLock { $0[ObjectIdentifier(opened.cancelHandle)] = opened.cancelHandle }
        if stopsNow { opened.cancelHandle.abandon() }
        opened.statementTimeoutMilliseconds = Self.silenceMilliseconds
        return opened
    }

    func close(_ connection: LogConnection) {
        connections.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(connection.cancelHandle)) }
        connection.close()
    }
}
