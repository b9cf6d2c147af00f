/// How a ``PostgresConnection`` connects and how long it waits.
public struct ConnectionSettings: Sendable {
    /// From the first address to a logged-in connection, all hosts together; 0 waits forever. Resolving a host name
    /// is the C library's and not bounded by this.
    public var connectTimeoutMs = 10_000
    /// For a whole call (for COPY and streamed rows: for each wait). After it the call throws `timeout` and the
    /// connection is closed, whatever the server goes on doing. 0 waits forever.
    public var statementTimeoutMs = 30_000
    /// Idle time before TCP asks whether the peer is still there; 0 leaves it to the system.
    public var keepaliveIdleSeconds = 10
    /// Time between two such questions.
    public var keepaliveIntervalSeconds = 5
    /// Unanswered questions after which the peer counts as dead.
    public var keepaliveCount = 3
    /// How long sent data may stay unacknowledged before TCP gives up; 0 leaves it to the system.
    public var tcpUserTimeoutMs = 20_000
    /// Server settings made in one round trip after login, such as `statement_timeout` (below `statementTimeoutMs`,
    /// so that a slow statement fails by itself and the connection survives) or `client_connection_check_interval`.
    public var sessionSettings: [String: String] = [:]

    public init() {}
}
