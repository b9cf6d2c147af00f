public import Runtime

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
