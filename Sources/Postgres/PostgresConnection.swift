import CPostgres
public import Runtime

/// A connection to PostgreSQL that blocks its thread.
///
/// Give it a thread of its own: every call waits in poll(2), so none belongs on the Swift cooperative pool. Not
/// Sendable; only ``cancelHandle`` may go to other threads. One call at a time: calling from inside a `body` that
/// this class calls throws `protocol`.
///
/// An error whose ``PostgresError/isConnectionLost`` is true has closed the connection; later calls throw
/// `connectionLost`, as they do after SQLSTATE 25006: the server is read-only. After any other error the connection is usable, in the transaction state that PostgreSQL gives
/// it.
public final class PostgresConnection {
    let link: Link
    private let interrupt: Interrupt
    /// How long a call may wait in silence; see ``ConnectionSettings/statementTimeoutMilliseconds``. May be changed between calls.
    public var statementTimeoutMilliseconds: Milliseconds
    /// Prepared here: the statement's name, its SQL, and the name that the server knows it by, as libpq takes it.
    var prepared: [String: (sql: String, serverName: [CChar])] = [:]
    /// Makes server-side names unique when a statement must be prepared again.
    var preparedGeneration = 0
    private var isBusy = false
    /// Which calls lose the connection, in tests.
    var faultyCalls: FaultyCalls?
    /// Pipelines that were sent and not received, in this order.
    var pipelines: [PipelineUnderWay] = []
    /// Whether no transaction was open when the first of them was sent.
    var startedIdle = false

    /// Stops this connection's work from other threads.
    public let cancelHandle: PostgresCancelHandle
    /// The process id of the server's backend, as `pg_stat_activity` shows it.
    public let backendPID: Int32
    /// 150018 for PostgreSQL 15.18.
    public let serverVersion: Int

    /// Connects and logs in.
    ///
    /// - Throws: `connect`, or what the session settings' statement throws.
    public init(_ url: PostgresURL, settings: ConnectionSettings = ConnectionSettings()) throws(PostgresError) {
        var faultyCalls = settings.faults.map { FaultyCalls($0, on: url) }
        if faultyCalls?.losesCall("connect") == true { throw PostgresError(.connect, FaultyCalls.lost) }
        interrupt = try Interrupt()
        link = try Link.open(url, settings, interrupt)
        cancelHandle = PostgresCancelHandle(PQgetCancel(link.connection), interrupt)
        backendPID = PQbackendPID(link.connection)
        serverVersion = Int(PQserverVersion(link.connection))
        statementTimeoutMilliseconds = settings.connectTimeoutMilliseconds
        self.faultyCalls = faultyCalls
        try failAfter("connect")
        try apply(settings.sessionSettings)
        statementTimeoutMilliseconds = settings.statementTimeoutMilliseconds
    }

    /// False once closed or lost.
    public var isOpen: Bool { !link.isLost && !interrupt.isSet }

    /// Whether a transaction is open, failed ones included.
    public var isInTransaction: Bool {
        guard link.isOpen else { return false }
        let status = PQtransactionStatus(link.connection)
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR
    }

    /// How many notices the server has sent. They are dropped, but for the one that makes a call throw `localCommit`: it is
    /// of level WARNING, which `client_min_messages` must let through.
    public var noticeCount: Int { link.noticeCount }

    /// Says goodbye and closes the socket. May be called twice. From inside a `body` it makes the call under way
    /// fail.
    public func close() {
        if isBusy, pipelines.isEmpty {
            interrupt.set()
        } else {
            pipelines.removeAll()
            isBusy = false
            link.close()
        }
    }

    private func apply(_ settings: [String: String]) throws(PostgresError) {
        guard !settings.isEmpty else { return }
        var parameters = PostgresParameters()
        var calls: [String] = []
        for (name, value) in settings.sorted(by: { $0.key < $1.key }) {
            parameters.appendText(name)
            parameters.appendText(value)
            calls.append("set_config($\(parameters.count - 1), $\(parameters.count), false)")
        }
        try execute("SELECT " + calls.joined(separator: ", "), parameters)
    }

    /// Starts a call: refuses a closed or busy connection, and returns the call's deadline.
    ///
    /// - Parameter isSent: whether something is sent to the server.
    func begin(_ statement: String, isSent: Bool = true) throws(PostgresError) -> Deadline {
        guard !isBusy else {
            throw PostgresError(
                .protocol, "the connection is busy: a call inside another call's body", statement: statement)
        }
        guard link.isOpen, !link.isLost, !interrupt.isSet else {
            link.close()
            throw PostgresError(
                .connectionLost, "the connection was closed or lost before; nothing was sent", statement: statement)
        }
        if isSent { try failBefore(statement) }
        isBusy = true
        return .silence(ms: statementTimeoutMilliseconds)
    }

    /// Ends a call that `begin` started.
    func end() {
        isBusy = false
        // What can't be written to is of no use, and where it can be written now, another connection finds out.
        if link.isOpen && (link.isLost || link.isReadOnly) {
            link.close()
        }
    }
}

/// How a ``PostgresConnection`` connects and how long it waits.
public struct ConnectionSettings: Sendable {
    /// From the first address to a logged-in connection, all hosts together; 0 waits forever. Resolving a host name
    /// is the C library's and not bounded by this.
    public var connectTimeoutMilliseconds: Milliseconds = 10_000
    /// The silence that a call bears: how long no byte may move in either direction. After it the call throws `timeout` and
    /// the connection is closed, whatever the server goes on doing. A server that computes is silent, too: statements
    /// that take it long need more. 0 waits forever.
    public var statementTimeoutMilliseconds: Milliseconds = 30_000
    /// Idle time before TCP asks whether the peer is still there; 0 leaves it to the system.
    public var keepaliveIdleSeconds = 5
    /// Time between two such questions.
    public var keepaliveIntervalSeconds = 2
    /// Unanswered questions after which the peer counts as dead.
    public var keepaliveCount = 3
    /// How long sent data, or a keepalive's question, may stay unacknowledged before TCP gives up; 0 leaves it to the system.
    ///
    /// What a connection string says of any of these goes before: `keepalives_idle`, `tcp_user_timeout`, ….
    public var tcpUserTimeoutMilliseconds: Milliseconds = 8_000
    /// Server settings made in one round trip after login, such as `statement_timeout` (below `statementTimeoutMilliseconds`,
    /// so that a slow statement fails by itself and the connection survives) or `client_connection_check_interval`.
    public var sessionSettings: [String: String] = [:]
    /// Which calls lose the connection, in tests; nil for none.
    public var faults: (any CallFaults)?

    public init() {}
}

/// Stops the work of one ``PostgresConnection`` from any other thread.
// @unchecked Sendable is safe: a PGcancel is immutable, PQcancel is documented to be thread-safe, and this object
// alone frees it, when the last reference goes.
public final class PostgresCancelHandle: @unchecked Sendable {
    private let cancel: OpaquePointer?
    private let interrupt: Interrupt

    init(_ cancel: OpaquePointer?, _ interrupt: Interrupt) {
        self.cancel = cancel
        self.interrupt = interrupt
    }

    deinit {
        PQfreeCancel(cancel)
    }

    /// Asks the server to stop the running statement, which then fails with SQLSTATE 57014; the connection stays
    /// usable. If none is running, nothing happens. Opens a connection of its own and blocks until the server has
    /// taken the request: not for the cooperative pool.
    ///
    /// - Returns: Whether the request was delivered, not whether it had an effect.
    @discardableResult
    public func cancelStatement() -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
            PQcancel(cancel, message.baseAddress, Int32(message.count)) == 1
        }
    }

    /// When anything last came from the server, in milliseconds of the monotonic clock.
    public var lastHeardMilliseconds: Int64 { interrupt.lastHeardMilliseconds }

    /// Makes the owner's current and every later call throw `cancelled` at once and close the connection, whether or
    /// not the server answers: for shutting down. Never blocks.
    public func abandon() {
        interrupt.set()
    }
}
