/// The settings of a connection. Times are in milliseconds.
public struct ConnectionSettings: Sendable, Equatable {
    /// The server's host, port and security; the machine creates the request target.
    public var host: String
    public var port: UInt16
    public var isSecure: Bool
    /// The database's name on the server.
    public var namespace: String

    /// Maximum time until the server's greeting, and again until the token is available and accepted.
    public var connectTimeout: Int64 = 30_000
    /// Time without other messages after which a keep-alive is sent.
    public var keepAlive: Int64 = 45_000
    /// Time without data from the server after which it is pinged: while it owes an answer, and while it owes none.
    public var pingWhenOwed: Int64 = 15_000
    public var pingWhenIdle: Int64 = 60_000
    /// Time without data after a ping after which the server is considered dead.
    public var pongTimeout: Int64 = 20_000
    /// Time without data from the server after which the connection ends, whatever the server owes and whether it was
    /// pinged; nil for no such limit.
    public var silence: Int64?
    /// The pause between attempts to connect: at first, and at most.
    public var firstRetry: Int64 = 1_000
    public var longestRetry: Int64 = 30_000
    /// The factor by which each failure extends the pause.
    public var retryFactor = 1.5
    /// The part of the pause that is random: 0 for none, 1 for all of it.
    public var retryJitter = 0.5
    /// The pause after the server has shut the database down; nil to connect never again, as SDKs do.
    public var retriesAfterShutdown: Int64?
    /// Time before a token's expiry at which the next token is requested.
    public var renewalMargin: Int64 = 60_000
    /// A token that expires sooner than this after the login is renewed after three quarters of its remaining time
    /// instead.
    public var shortTokenLife: Int64 = 240_000
    /// Minimum duration of a connection that counts as successful: the next failure then counts as the first.
    public var goodConnection: Int64 = 30_000
    /// Maximum size of a message from the server, with its segments combined.
    public var maxMessageBytes = 256 << 20
    /// Maximum number and bytes of requests that are sent ahead of the server's answers.
    public var maxRequestsInFlight = 1_000
    public var maxBytesInFlight = 8 << 20
    /// Whether the next connections use the host that the server's greeting names.
    public var followsGreeting = false
    /// The domain of the hosts to which the server may send the client, in addition to the configured host; nil for any
    /// host. The client signs in there.
    public var redirectDomain: String?
    /// Whether the client asks the server for the gateway's extension. Other servers ignore the request.
    public var asksForExtension = true

    /// Whether the client connects to a host that the server names.
    func accepts(_ host: String) -> Bool {
        guard let redirectDomain else { return true }
        let host = host.lowercased()
        return host == self.host || (!redirectDomain.isEmpty && host.hasSuffix("." + redirectDomain))
    }

    public init(host: String, port: UInt16, isSecure: Bool, namespace: String) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
        self.namespace = namespace
    }
}
