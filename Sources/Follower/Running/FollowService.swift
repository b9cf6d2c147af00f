public import LogStore
public import Postgres
public import Runtime
import Synchronization

/// The followers of a gateway in one database: claims namespaces that no gateway follows, and runs a follower for each. Any
/// thread.
public final class FollowService: Sendable {
    private let supervisor: FollowSupervisor
    private let thread: Thread

    /// Starts the thread. The database need not be reachable yet.
    ///
    /// - Parameters:
    ///   - gateway: the name of this gateway, for people.
    ///   - target: returns the namespace with a name, to which a follower writes.
    ///   - servers: decides which database servers may be used.
    public init(
        url: PostgresURL, settings: LogConnection.Settings = LogConnection.Settings(), gateway: String,
        tools: FollowTools, logger: Logger, servers: ServerFence,
        target: @escaping @Sendable (String) -> any FollowTarget
    ) {
        let supervisor = FollowSupervisor(
            url: url, settings: settings, gateway: gateway, tools: tools, logger: logger, servers: servers,
            target: target)
        self.supervisor = supervisor
        thread = Thread(name: "follow-watch") { supervisor.run() }
    }

    /// The followers that run here, with their status.
    public var reports: [FollowReport] { supervisor.reports }

    /// Ends the followers, and releases their namespaces to other gateways.
    public func stop() {
        supervisor.stop()
        thread.join()
    }
}

/// The status of a follower of this gateway.
public struct FollowReport: Sendable {
    public let namespace: String
    public let status: FollowStatus
    /// The number of bytes after which the follower stops for the rest of the day, or nil without a limit.
    public let maxBytesPerDay: Int64?
}

/// Keeps the claims of a gateway's followers: the thread that reports their status, which is their heartbeat, and takes over
/// namespaces whose gateway has stopped.
final class FollowSupervisor: Sendable {
    private let url: PostgresURL
    private let settings: LogConnection.Settings
    private let gateway: String
    private let tools: FollowTools
    private let logger: Logger
    private let servers: ServerFence
    private let target: @Sendable (String) -> any FollowTarget
    private let isStopping = Condition(false)
    private let running = Mutex<[Int64: FollowRunner]>([:])
    /// The claimed namespaces whose stored upstream or credentials are invalid.
    private let invalid = Mutex<[Int64: InvalidFollow]>([:])

    private static let heartbeatMilliseconds: Milliseconds = 1_000
    /// The time without a heartbeat after which another gateway takes a namespace over.
    private static let expiryMilliseconds: Milliseconds = 5_000

    init(
        url: PostgresURL, settings: LogConnection.Settings, gateway: String, tools: FollowTools, logger: Logger,
        servers: ServerFence, target: @escaping @Sendable (String) -> any FollowTarget
    ) {
        self.url = url
        self.settings = settings
        self.gateway = gateway
        self.tools = tools
        self.logger = logger
        self.servers = servers
        self.target = target
    }

    var reports: [FollowReport] {
        running.withLock { running in
            running.values.map {
                FollowReport(
                    namespace: $0.setup.namespace, status: $0.status, maxBytesPerDay: $0.setup.maxBytesPerDay)
            }
        } + invalid.withLock { $0.values.map(\.report) }
    }

    func stop() { isStopping.broadcast { $0 = true } }

    func run() {
        var watch = HeartbeatWatch(
            leaseExpiryMilliseconds: Self.expiryMilliseconds, heartbeatMilliseconds: Self.heartbeatMilliseconds)
        var connection: LogConnection?
        var locked: [Int64: Int64] = [:]
        var backoff = Backoff(firstMilliseconds: 100, longestMilliseconds: Self.heartbeatMilliseconds)
        while !isStopping.withLock({ $0 }) {
            var pause = running.withLock { $0.values.contains { $0.wantsPosition } } ? 50 : Self.heartbeatMilliseconds
            do {
                let open = try connection ?? connect()
                connection = open
                try look(open, &watch, &locked)
                backoff.reset()
            } catch {
                connection?.close()
                connection = nil
                watch.forget()
                pause = backoff.nextMilliseconds()
                logger.debug("the followers can't reach the database", [("error", "\(error)")])
            }
            _ = isStopping.wait(milliseconds: pause) { $0 ? true : nil }
        }
        for runner in takeAll() {
            runner.end(waits: true)
            if let connection, connection.isOpen {
                _ = try? connection.reportFollow(runner.setup.namespaceID, fence: runner.setup.fence, runner.status)
                _ = try? connection.releaseFollow(runner.setup.namespaceID, fence: runner.setup.fence)
            }
        }
        if let connection, connection.isOpen {
            for (id, invalid) in invalid.withLock({ $0 }) {
                _ = try? connection.releaseFollow(id, fence: invalid.fence)
            }
        }
        connection?.close()
    }

    private func takeAll() -> [FollowRunner] {
        running.withLock { running in
            defer { running = [:] }
            return Array(running.values)
        }
    }

    private func connect() throws -> LogConnection {
        let connection = try servers.open(url.withApplicationName("pathmirror follow"), settings)
        connection.statementTimeoutMilliseconds = Self.expiryMilliseconds
        return connection
    }

    private func look(
        _ connection: LogConnection, _ watch: inout HeartbeatWatch, _ locked: inout [Int64: Int64]
    ) throws {
        let asked = Clock.monotonicMilliseconds
        let records = try connection.follows()
        try keep(records, connection)
        try keepInvalid(connection)
        let mine = Set(running.withLock { $0.keys }).union(invalid.withLock { $0.keys })
        let beats = records.compactMap { record -> GatewayHeartbeat? in
            guard let fence = record.fence, !mine.contains(record.namespaceID) else { return nil }
            return Self.beat(record, fence, locked)
        }
        let dead = Set(watch.look(beats, asked: asked, answered: Clock.monotonicMilliseconds))
        for record in records where !mine.contains(record.namespaceID) && !record.isPaused {
            if let fence = record.fence, !dead.contains(Self.beat(record, fence, locked)) { continue }
            try separately(record.namespace, connection) {
                if try claim(record, connection) == .isLocked { locked[record.namespaceID, default: 0] += 1 }
            }
        }
    }

    /// - Parameter locked: how often each row was found locked. A batch in progress is a sign of life as well.
    private static func beat(
        _ record: FollowRecord, _ fence: [UInt8], _ locked: [Int64: Int64]
    ) -> GatewayHeartbeat {
        GatewayHeartbeat(
            gateway: "\(record.namespaceID) \(fence)", heartbeat: record.heartbeat,
            seenAt: "\(locked[record.namespaceID] ?? 0)")
    }

    /// Handles one namespace. An error that leaves the connection open must not stop the heartbeats of the others.
    private func separately(
        _ namespace: String, _ connection: LogConnection, _ body: () throws -> Void
    ) throws {
        do {
            try body()
        } catch {
            guard connection.isOpen else { throw error }
            logger.warning(
                "the status of a follower can't be stored", [("namespace", namespace), ("error", "\(error)")])
        }
    }

    /// Reports the status of the followers that run here, and ends those that are paused or have lost their claim.
    private func keep(_ records: [FollowRecord], _ connection: LogConnection) throws {
        let byID = Dictionary(uniqueKeysWithValues: records.map { ($0.namespaceID, $0) })
        for (id, runner) in running.withLock({ $0 }) {
            try separately(runner.setup.namespace, connection) { try keep(id, runner, byID[id], connection) }
        }
    }

    private func keep(_ id: Int64, _ runner: FollowRunner, _ record: FollowRecord?, _ connection: LogConnection) throws
    {
        let fence = runner.setup.fence
        // A pause takes the claim away.
        if record?.isPaused == true { return end(id) }
        guard record?.fence == fence else {
            if record?.fence != nil {
                logger.warning("another gateway follows the upstream now", [("namespace", runner.setup.namespace)])
            }
            return end(id)
        }
        if runner.wantsPosition {
            switch try connection.followPosition(id, fence: fence) {
            case .committed(let position): runner.positionFound(position)
            case .isLocked: break
            case .isOthers: return end(id)
            }
        }
        if try !connection.reportFollow(id, fence: fence, runner.status) { end(id) }
    }

    /// Reports the status of the namespaces that can't be followed, and forgets those that are claimed no longer: after a pause
    /// or a removal, the row is read again.
    private func keepInvalid(_ connection: LogConnection) throws {
        for (id, follow) in invalid.withLock({ $0 }) {
            try separately(follow.report.namespace, connection) {
                if try !connection.reportFollow(id, fence: follow.fence, follow.report.status) {
                    invalid.withLock { _ = $0.removeValue(forKey: id) }
                }
            }
        }
    }

    private func end(_ id: Int64) {
        let runner = running.withLock { $0.removeValue(forKey: id) }
        runner?.end(waits: false)
    }

    private func claim(_ record: FollowRecord, _ connection: LogConnection) throws -> FollowClaim {
        let fence = Batch.makeID()
        let claim = try connection.claimFollow(record, fence: fence, gateway: gateway)
        guard claim == .claimed else { return claim }
        do throws(FollowError) {
            let setup = FollowSetup(
                namespaceID: record.namespaceID, namespace: record.namespace,
                upstream: try UpstreamAddress(record.upstream),
                credentials: try UpstreamCredentials(stored: record.credentials), keepsRules: record.keepRules,
                maxBytesPerDay: record.maxBytesPerDay, fence: fence, status: record.status,
                target: target(record.namespace), tools: tools, logger: logger)
            let runner = FollowRunner(setup)
            running.withLock { $0[record.namespaceID] = runner }
            runner.begin()
            logger.notice(
                "this gateway follows the upstream",
                [("namespace", record.namespace), ("upstream", "\(setup.upstream)")])
        } catch {
            var status = record.status
            status.state = FollowState.invalid(reason: "").name
            status.message = "\(error)"
            logger.error(
                "the namespace can't follow its upstream", [("namespace", record.namespace), ("reason", "\(error)")])
            let report = FollowReport(
                namespace: record.namespace, status: status, maxBytesPerDay: record.maxBytesPerDay)
            invalid.withLock { $0[record.namespaceID] = InvalidFollow(fence: fence, report: report) }
            _ = try connection.reportFollow(record.namespaceID, fence: fence, status)
        }
        return claim
    }
}

/// A claim of a namespace that can't be followed, because its stored upstream or credentials are invalid. The claim prevents
/// other gateways from trying it, too.
private struct InvalidFollow {
    let fence: [UInt8]
    let report: FollowReport
}

extension FollowRunner {
    var status: FollowStatus { board.withLock { $0.status } }
    var wantsPosition: Bool { board.withLock { $0.wantsPosition } }
}
