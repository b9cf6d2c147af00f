public import LogStore
public import Postgres
public import Runtime
import Synchronization

/// The settings for running mirrors. Every field has a default.
public struct MirrorSettings: Sendable {
    /// The interval at which the log is checked without an announcement.
    public var pollMilliseconds: Milliseconds = 1_000
    /// The interval at which a group of another gateway is tried, in case that gateway has died.
    public var takeoverMilliseconds: Milliseconds = 1_000
    /// The first and the longest pause before a failure is retried.
    public var firstRetryMilliseconds: Milliseconds = 200
    public var maxRetryMilliseconds: Milliseconds = 30_000
    /// The time that a mirror waits for a table locked by another session, before it counts as broken.
    public var lockTimeoutMilliseconds: Milliseconds = 2_000
    /// The number of entries read at once.
    public var entriesAtOnce = 2_500
    /// If a replaced path contains more records than this, histories let the database find the removed ones. Nil for the
    /// stepper's default.
    var rangeRecords: Int?
    /// Selects calls that lose their connection, in tests.
    var faults: (any CallFaults)?
    /// The environment for targets of the form `env:NAME`.
    public var environment: [String: String] = [:]
    /// The name of this gateway in `pathmirror.mirror_run`.
    public var gateway = "gateway"

    public init() {}
}

/// Runs the mirrors: one thread follows announcements, and one thread runs the mirrors of each namespace and target. Several
/// gateways share the work. Each group of mirrors is run by one of them.
public final class MirrorService: Sendable {
    private let core: MirrorCore
    private let announcements: AnnouncementSubscription
    private let thread: Thread

    /// Starts the service. The database need not be reachable yet.
    ///
    /// - Parameters:
    ///   - announcements: the announcements of the database.
    ///   - servers: decides which servers are accepted. All parts of the program share one instance for the database.
    ///   - makeRoom: creates the budget of a tree of the past, from which a history is rebuilt. Its argument returns whether
    ///     the tree is still needed. Nil for memory without a limit.
    public init(
        url: PostgresURL, settings: MirrorSettings = MirrorSettings(), announcements: Announcements, logger: Logger,
        servers: ServerFence = ServerFence(),
        makeRoom: (@Sendable (_ shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget)? = nil
    ) {
        let core = MirrorCore(url: url, settings: settings, logger: logger, servers: servers, roomMaker: makeRoom)
        let announcements = announcements.subscribe(to: .mirrors)
        self.core = core
        self.announcements = announcements
        thread = Thread(name: "mirrors") { MirrorSupervisor(core, announcements).run() }
    }

    /// The states of the mirrors.
    public var reports: [MirrorReport] { core.board.all }

    /// Stops all work at once. Transactions in progress are rolled back, and the next runner repeats them.
    public func stop() {
        core.stop()
        announcements.end()
        thread.join()
    }
}

/// The state shared by the threads that run mirrors.
final class MirrorCore: Sendable {
    let url: PostgresURL
    let settings: MirrorSettings
    let logger: Logger
    let board = MirrorReports()
    private let servers: ServerFence
    private let roomMaker: (@Sendable (_ shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget)?
    private let stopping = Condition(false)
    private struct Registered: Sendable {
        let handle: PostgresCancelHandle
        /// Whether the connection is to the gateway's database rather than to another target.
        let isPrimary: Bool
    }
    private let connections = Mutex<[ObjectIdentifier: Registered]>([:])
    /// The time for which a statement that moves mirrors may be silent. Builds have no limit.
    static let silenceMilliseconds: Milliseconds = 120_000
    /// The time without an answer after which the supervisor treats the database as lost.
    static let lookMilliseconds: Milliseconds = 10_000

    init(
        url: PostgresURL, settings: MirrorSettings, logger: Logger, servers: ServerFence,
        roomMaker: (@Sendable (_ shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget)?
    ) {
        self.roomMaker = roomMaker
        self.servers = servers
        self.url = url
        self.settings = settings
        self.logger = logger
    }

    var stopsNow: Bool { stopping.withLock { $0 } }

    /// Creates the budget of a tree of the past. Nil stands for memory without a limit.
    func makeRoom() -> (any TreeMemoryBudget)? { roomMaker?({ [weak self] in self.map { !$0.stopsNow } ?? false }) }

    func stop() {
        stopping.broadcast { $0 = true }
        for connection in connections.withLock({ Array($0.values) }) { connection.handle.abandon() }
    }

    /// Waits, but returns early when the service stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Settings of connections that may wait long for the server, but soon notice when it is lost.
    var connectionSettings: PostgresConnectionSettings {
        var connection = PostgresConnectionSettings.forMirrors
        connection.sessionSettings["lock_timeout"] = "\(settings.lockTimeoutMilliseconds)"
        connection.faults = settings.faults
        return connection
    }

    var connector: TargetConnector {
        TargetConnector(url: url, settings: connectionSettings, environment: settings.environment)
    }

    /// Opens a connection to a server that accepts writes and is not older than any server seen before.
    func source(_ purpose: String) throws -> LogConnection {
        var log = LogConnection.Settings()
        log.connection = connectionSettings
        let opened = try servers.open(url.withApplicationName("pathmirror \(purpose)"), log)
        register(opened.cancelHandle, isPrimary: true)
        return opened
    }

    func target(_ target: String?) throws -> PostgresConnection {
        // Tables in the gateway's own database are written on the server whose log is read, even if another server accepts
        // writes.
        guard let target else { return try source("mirror writer").forOtherTables }
        let connection = try connector.connect(target, as: "mirror writer")
        register(connection.cancelHandle, isPrimary: false)
        return connection
    }

    /// Abandons the connections to the gateway's silent database that have received nothing since `moment`.
    func abandonSilent(since moment: Int64) {
        let silent = connections.withLock { connections in
            connections.values.filter { $0.isPrimary && $0.handle.lastHeardMilliseconds < moment }
        }
        for connection in silent { connection.handle.abandon() }
    }

    private func register(_ handle: PostgresCancelHandle, isPrimary: Bool) {
        connections.withLock { $0[ObjectIdentifier(handle)] = Registered(handle: handle, isPrimary: isPrimary) }
        if stopsNow { handle.abandon() }
    }

    func close(_ connection: LogConnection) {
        forget(connection.cancelHandle)
        connection.close()
    }

    func close(_ connection: PostgresConnection) {
        forget(connection.cancelHandle)
        connection.close()
    }

    private func forget(_ handle: PostgresCancelHandle) {
        connections.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(handle)) }
    }
}

/// The mirrors of one namespace in one target, which move together.
struct MirrorGroup: Hashable, Sendable, CustomStringConvertible {
    let namespaceID: Int64
    let namespace: String
    let target: String?

    /// A key that must not be displayed: it may contain a password.
    var description: String { "\(namespaceID) \(target ?? "")" }
}

/// The state of a mirror, as this gateway knows it.
public struct MirrorReport: Sendable, Equatable {
    public enum State: String, Sendable {
        case running, paused, broken
        /// Another gateway runs the mirror.
        case elsewhere
        /// The mirror's table is being built.
        case building
    }

    public let namespace: String
    public let name: String
    public var state: State
    /// The log position of the table; 0 while unknown.
    public var seq: Int64 = 0
    /// The number of entries that the table lacks.
    public var lagEntries: Int64 = 0
    /// The time for which the table has lacked entries.
    public var lagMilliseconds: Int64 = 0
    /// The reason why the mirror is broken.
    public var message: String?
}

/// The reports of all mirrors. Any thread may read them.
final class MirrorReports: Sendable {
    private let reports = Mutex<[String: [MirrorReport]]>([:])

    /// Replaces the reports of one group of mirrors.
    func set(_ group: String, _ new: [MirrorReport]?) {
        reports.withLock { $0[group] = new }
    }

    var all: [MirrorReport] {
        reports.withLock { $0.values.flatMap { $0 } }.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }
    }
}
