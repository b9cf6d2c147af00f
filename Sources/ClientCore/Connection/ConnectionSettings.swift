/// How a connection behaves. Times are in milliseconds.
public struct ConnectionSettings: Sendable, Equatable {
    /// The server's host, port and security; its target is made by the machine.
    public var host: String
    public var port: UInt16
    public var isSecure: Bool
    /// The database's name on the server.
    public var namespace: String

    /// From the beginning of a connection until the server's greeting, and again until the token is there and accepted.
    public var connectTimeout: Int64 = 30_000
    /// A keep-alive is sent when nothing else was sent for so long.
    public var keepAlive: Int64 = 45_000
    /// The server is pinged when nothing came from it for so long: while it owes an answer, and while it owes none.
    public var pingWhenOwed: Int64 = 15_000
    public var pingWhenIdle: Int64 = 60_000
    /// The server is taken for dead when nothing comes for so long after a ping.
    public var pongTimeout: Int64 = 20_000
    /// Between tries to connect: at first, and at most.
    public var firstRetry: Int64 = 1_000
    public var longestRetry: Int64 = 30_000
    /// A connection that lasted so long was a good one: the next try is a first one again.
    public var goodConnection: Int64 = 30_000
    /// The longest message that is taken from the server, its segments put together.
    public var maxMessageBytes = 256 << 20
    /// How much is sent ahead of the server's answers.
    public var maxRequestsInFlight = 1_000
    public var maxBytesInFlight = 8 << 20
    /// Whether the host that the server's greeting names is used for the next connections.
    public var followsGreeting = false
    /// Whether the server is asked for the gateway's extension. Others pass over the question.
    public var asksForExtension = true

    public init(host: String, port: UInt16, isSecure: Bool, namespace: String) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
        self.namespace = namespace
    }
}
