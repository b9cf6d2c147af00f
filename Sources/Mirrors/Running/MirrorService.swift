public import LogStore
public import Postgres
public import Runtime
import Synchronization

/// How mirrors are run; every field has its default.
public struct MirrorSettings: Sendable {
    /// How often the log is looked at although nothing was announced.
    public var pollMilliseconds: Milliseconds = 1_000
    /// How long until somebody else's group of mirrors is tried again, in case its gateway is gone.
    public var takeoverMilliseconds: Milliseconds = 1_000
    /// The first and the longest pause before something broken is tried again.
    public var firstRetryMilliseconds: Milliseconds = 200
    public var maxRetryMilliseconds: Milliseconds = 30_000
    /// How long a mirror waits for a table that somebody has locked, before it counts as broken.
    public var lockTimeoutMilliseconds: Milliseconds = 2_000
    /// Entries read at once.
    public var entriesAtOnce = 2_500
    /// Where more records than this are below a place that is replaced, histories have the database find those that go. Nil for what
    /// the stepper takes to be few.
    var rangeRecords: Int?
    /// Which calls lose their connection, in tests.
    var faults: (any CallFaults)?
    /// For targets of the form `env:NAME`.
    public var environment: [String: String] = [:]
    /// Names this gateway in `pathmirror.mirror_run`.
    public var gateway = "gateway"

    public init() {}
}

/// Runs the mirrors: one thread that follows announcements, and one for the mirrors of each namespace and target. Several
/// gateways share the work; each group of mirrors is run by one of them.
public final class MirrorService: Sendable {
    private let core: MirrorCore
    private let announcements: AnnouncementSubscription
    private let thread: Thread

    /// Starts; the database may be absent, and come later.
    ///
    /// - Parameters:
    ///   - announcements: what is heard of the database.
    ///   - servers: which servers are gone on with; one for all that this program does with the database.
    ///   - makeRoom: makes room for a tree of the past, of which a history is made anew; it is given what says whether there is still
    ///     use for it. Nil for memory, however much such trees take.
    public init(
        url: PostgresURL, settings: MirrorSettings = MirrorSettings(), announcements: Announcements, logger: Logger,
        servers: ServerFence = ServerFence(),
        makeRoom: (@Sendable (_ goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom)? = nil
    ) {
        let core = MirrorCore(url: url, settings: settings, logger: logger, servers: servers, roomMaker: makeRoom)
        let announcements = announcements.subscribe(to: .mirrors)
        self.core = core
        self.announcements = announcements
        thread = Thread(name: "mirrors") { MirrorSupervisor(core, announcements).run() }
    }

    /// How the mirrors fare.
    public var reports: [MirrorReport] { core.board.all }

    /// Ends all work at once: what was under way is rolled back and done again by the next to run.
    public func stop() {
        core.stop()
        announcements.end()
        thread.join()
    }
}

/// What the threads that run mirrors share.
final class MirrorCore: Sendable {
    let url: PostgresURL
    let settings: MirrorSettings
    let logger: Logger
    let board = ReportBoard()
    private let servers: ServerFence
    private let roomMaker: (@Sendable (_ goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom)?
    private let stopping = Condition(false)
    private struct Registered: Sendable {
        let handle: PostgresCancelHandle
        /// To the gateway's database, not to another that has tables.
        let isHome: Bool
    }
    private let connections = Mutex<[ObjectIdentifier: Registered]>([:])
    /// How long a statement that moves mirrors may be silent. Builds may take any time.
    static let silenceMilliseconds: Milliseconds = 120_000
    /// How long the supervisor waits for an answer until the database counts as lost.
    static let lookMilliseconds: Milliseconds = 10_000

    init(
        url: PostgresURL, settings: MirrorSettings, logger: Logger, servers: ServerFence,
        roomMaker: (@Sendable (_ goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom)?
    ) {
        self.roomMaker = roomMaker
        self.servers = servers
        self.url = url
        self.settings = settings
        self.logger = logger
    }

    var stopsNow: Bool { stopping.withLock { $0 } }

    /// Room for a tree of the past; nil for memory.
    func makeRoom() -> (any TreeRoom)? { roomMaker?({ [weak self] in self.map { !$0.stopsNow } ?? false }) }

    func stop() {
        stopping.broadcast { $0 = true }
        for connection in connections.withLock({ Array($0.values) }) { connection.handle.abandon() }
    }

    /// Waits; ends early when the service stops.
    func pause(milliseconds: Milliseconds) {
        _ = stopping.wait(milliseconds: milliseconds) { $0 ? true : nil }
    }

    /// Settings of connections that may wait long for the server, yet notice soon that it is gone.
    var connectionSettings: ConnectionSettings {
        var connection = ConnectionSettings.forMirrors
        connection.sessionSettings["lock_timeout"] = "\(settings.lockTimeoutMilliseconds)"
        connection.faults = settings.faults
        return connection
    }

    var connector: TargetConnector {
        TargetConnector(url: url, settings: connectionSettings, environment: settings.environment)
    }

    /// Opens a connection to a server that may be written to and is not older than any that was met before.
    func source(_ purpose: String) throws -> LogConnection {
        var log = LogConnection.Settings()
        log.connection = connectionSettings
        let opened = try servers.open(url.withApplicationName("pathmirror \(purpose)"), log)
        register(opened.cancelHandle, isHome: true)
        return opened
    }

    func target(_ target: String?) throws -> PostgresConnection {
        // Tables in the gateway's own database are written where its log is read, whoever else takes writes.
        guard let target else { return try source("mirror writer").forOtherTables }
        let connection = try connector.connect(target, as: "mirror writer")
        register(connection.cancelHandle, isHome: false)
        return connection
    }

    /// The gateway's database is silent: who waits for it, and has heard nothing since, waits in vain.
    func abandonSilent(since moment: Int64) {
        let silent = connections.withLock { connections in
            connections.values.filter { $0.isHome && $0.handle.lastHeardMilliseconds < moment }
        }
        for connection in silent { connection.handle.abandon() }
    }

    private func register(_ handle: PostgresCancelHandle, isHome: Bool) {
        connections.withLock { $0[ObjectIdentifier(handle)] = Registered(handle: handle, isHome: isHome) }
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

/// The mirrors of one namespace in one target: they move together.
struct MirrorGroup: Hashable, Sendable, CustomStringConvertible {
    let namespaceID: Int64
    let namespace: String
    let target: String?

    /// A key, not for people: it may hold a password.
    var description: String { "\(namespaceID) \(target ?? "")" }
}

/// How a mirror fares, as this gateway knows it.
public struct MirrorReport: Sendable, Equatable {
    public enum State: String, Sendable {
        case running, paused, broken
        /// Another gateway runs it.
        case elsewhere
        /// Its table is being made.
        case building
    }

    public let namespace: String
    public let name: String
    public var state: State
    /// The entry up to which the table has come; 0 while unknown.
    public var seq: Int64 = 0
    /// Entries that the table lacks.
    public var lagEntries: Int64 = 0
    /// For how long it has lacked some.
    public var lagMilliseconds: Int64 = 0
    /// Why it is broken.
    public var message: String?
}

/// The reports of all mirrors; any thread may look.
final class ReportBoard: Sendable {
    private let reports = Mutex<[String: [MirrorReport]]>([:])

    /// Replaces the reports of one group of mirrors.
    func set(_ group: String, _ new: [MirrorReport]?) {
        reports.withLock { $0[group] = new }
    }

    var all: [MirrorReport] {
        reports.withLock { $0.values.flatMap { $0 } }.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }
    }
}
