import CPostgres
public import Runtime

/// A connection to PostgreSQL that blocks its thread.
///
/// Give the connection its own thread: every call waits in poll(2), so none belongs on the Swift cooperative pool. Not
/// Sendable; only ``cancelHandle`` may be used on other threads. One call at a time: calling from inside a `body` that
/// this class calls throws `protocol`.
///
/// An error whose ``PostgresError/isConnectionLost`` is true has closed the connection. Later calls throw
/// `connectionLost`, as they do after SQLSTATE 25006: the server is read-only. After any other error the connection is
/// usable, in the transaction state that PostgreSQL defines.
public final class PostgresConnection {
    let link: PostgresLink
    private let interrupt: Interrupt
    /// How long a call may wait in silence; see ``ConnectionSettings/statementTimeoutMilliseconds``. May be changed
    /// between calls.
    public var statementTimeoutMilliseconds: Milliseconds
    /// The prepared statements: by name, the SQL and the name on the server, as libpq expects it.
    var prepared: [String: (sql: String, serverName: [CChar])] = [:]
    /// Makes server-side names unique when a statement must be prepared again.
    var preparedGeneration = 0
    private var isBusy = false
    /// Selects the calls that lose the connection, in tests.
    var faultyCalls: FaultyCalls?
    /// Pipelines in flight: sent and not received, in this order.
    var pipelines: [PipelineInFlight] = []
    /// Whether no transaction was open when the first pipeline in flight was sent.
    var startedIdle = false

    /// Stops this connection's work from other threads.
    public let cancelHandle: PostgresCancelHandle
    /// The process id of the server's backend, as `pg_stat_activity` shows it.
    public let backendPID: Int32
    /// 150018 for PostgreSQL 15.18.
    public let serverVersion: Int

    /// Connects and logs in.
    ///
    /// - Throws: `connect`, or an error of the statement that applies the session settings.
    public init(_ url: PostgresURL, settings: PostgresConnectionSettings = PostgresConnectionSettings())
        throws(PostgresError)
    {
        var faultyCalls = settings.faults.map { FaultyCalls($0, on: url) }
        if faultyCalls?.losesCall("connect") == true { throw PostgresError(.connect, FaultyCalls.lost) }
        interrupt = try Interrupt()
        link = try PostgresLink.open(url, settings, interrupt)
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

    /// Whether a transaction is open, including a failed one.
    public var isInTransaction: Bool {
        guard link.isOpen else { return false }
        let status = PQtransactionStatus(link.connection)
        return status == PQTRANS_INTRANS || status == PQTRANS_INERROR
    }

    /// The number of notices from the server. They are discarded, except for the one that makes a call throw
    /// `localCommit`. Its level is WARNING, which `client_min_messages` must not suppress.
    public var noticeCount: Int { link.noticeCount }

    /// Ends the session and closes the socket. May be called twice.
    /// From inside a `body`, it makes the call in progress fail.
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

    /// Starts a call: throws on a closed or busy connection, and returns the call's deadline.
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
        // A connection that can't write is useless. If the server accepts writes by now, another connection finds out.
        if link.isOpen && (link.isLost || link.isReadOnly) {
            link.close()
        }
    }
}

/// The connection parameters and timeouts of a ``PostgresConnection``.
public struct PostgresConnectionSettings: Sendable {
    /// The time from the first address to a logged-in connection, for all hosts together; 0 waits forever. The C
    /// library resolves host names, which is not limited by this.
    public var connectTimeoutMilliseconds: Milliseconds = 10_000
    /// The silence that a call tolerates, that is, the time without a byte in either direction. After it the call
    /// throws `timeout` and the connection is closed, although the server may continue. A computing server is silent,
    /// too: slow statements need a longer time. 0 waits forever.
    public var statementTimeoutMilliseconds: Milliseconds = 30_000
    /// The idle time before TCP probes the peer; 0 uses the system's default.
    public var keepaliveIdleSeconds = 5
    /// The time between two probes.
    public var keepaliveIntervalSeconds = 2
    /// The number of unanswered probes after which the peer counts as dead.
    public var keepaliveCount = 3
    /// How long sent data, or a keepalive probe, may stay unacknowledged before TCP gives up; 0 uses the system's
    /// default.
    ///
    /// The connection string overrides this and the keepalive settings: `keepalives_idle`, `tcp_user_timeout`, ….
    public var tcpUserTimeoutMilliseconds: Milliseconds = 8_000
    /// Server settings applied in one round trip after login, such as `client_connection_check_interval` or
    /// `statement_timeout`. If `statement_timeout` is below `statementTimeoutMilliseconds`, a slow statement fails by
    /// itself and the connection survives.
    public var sessionSettings: [String: String] = [:]
    /// Selects the calls that lose the connection, in tests. Nil for none.
    public var faults: (any CallFaults)?

    public init() {}
}

/// Stops the work of one ``PostgresConnection`` from any other thread.
// @unchecked Sendable is safe: a PGcancel is immutable, PQcancel is documented to be thread-safe, and this object alone
// frees the PGcancel, when the last reference is released.
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
    /// usable. If none is running, nothing happens.
    /// The request uses a connection of its own and blocks until the server has accepted it: not for the cooperative
    /// pool.
    ///
    /// - Returns: whether the request was delivered, not whether it had an effect.
    @discardableResult
    public func cancelStatement() -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
            PQcancel(cancel, message.baseAddress, Int32(message.count)) == 1
        }
    }

    /// The monotonic millisecond at which the server last sent something.
    public var lastHeardMilliseconds: Int64 { interrupt.lastHeardMilliseconds }

    /// Makes the owner's current call and every later one throw `cancelled` at once and close the connection, whether
    /// or not the server answers. Intended for shutdown; never blocks.
    public func abandon() {
        interrupt.set()
    }
}
