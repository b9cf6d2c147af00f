public import Runtime

/// Which servers, as whom, and how much patience there is with them.
public struct NATSSettings: Sendable {
    public enum Credentials: Sendable {
        case none
        case password(user: String, Secret<String>)
        case token(Secret<String>)
        /// A file with a JSON Web Token and the seed of its key, as `nsc` writes it.
        case file(String)
    }

    /// `nats://host:port` or `tls://host:port`: the servers of one cluster, tried in any order. Where one is `tls:`, all are.
    public var servers: [String]
    public var credentials = Credentials.none
    /// A PEM file of authorities to trust instead of the system's.
    public var certificateAuthoritiesFile: String?
    /// What the server's operators see.
    public var name = "pathmirror"
    /// For connecting to one server.
    public var connectTimeoutMilliseconds: Milliseconds = 5_000
    /// From `publish` to the acknowledgement.
    public var timeoutMilliseconds: Milliseconds = 10_000
    /// How long the connection may take no bytes before it is given up.
    public var writeTimeoutMilliseconds: Milliseconds = 5_000
    /// Messages under way and waiting; more are refused.
    public var maxMessages = 10_000

    public init(servers: [String]) { self.servers = servers }
}
