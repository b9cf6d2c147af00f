public import ClientCore
public import HTTPClient
internal import LogStore
public import Runtime

/// The namespace, the upstream and the claim of one follower.
struct FollowSetup: Sendable {
    let namespaceID: Int64
    let namespace: String
    let upstream: UpstreamAddress
    let credentials: UpstreamCredentials
    let keepsRules: Bool
    let maxBytesPerDay: Int64?
    let fence: [UInt8]
    /// The stored status of the previous follower.
    let status: FollowStatus
    let target: any FollowTarget
    let tools: FollowTools
    let logger: Logger
}

/// The transport, the HTTP client and the times that the followers of a gateway share.
public struct FollowTools: Sendable {
    let transport: any RealtimeTransport
    let client: HTTPClient
    let readFile: @Sendable (String) throws -> [UInt8]
    let times: FollowTimes

    /// - Parameter readFile: returns the contents of a file of credentials.
    public init(
        transport: any RealtimeTransport, client: HTTPClient, times: FollowTimes = FollowTimes(),
        readFile: @escaping @Sendable (String) throws -> [UInt8]
    ) {
        self.times = times
        self.transport = transport
        self.client = client
        self.readFile = readFile
    }
}

/// The times of followers, in milliseconds. Facts of the real service: reference, upstream-facts, Connection.
public struct FollowTimes: Sendable {
    /// The time between two reads of the upstream's rules.
    public var rulesPoll: Milliseconds = 300_000
    /// The time without a byte after which a connection ends: two keep-alive periods.
    public var silence: Milliseconds = 90_000
    /// The pause between attempts to connect: at first, and at most.
    public var firstRetry: Milliseconds = 1_000
    public var longestRetry: Milliseconds = 30_000
    /// The pause after the upstream has asked clients not to connect again.
    public var shutdownRetry: Milliseconds = 600_000
    /// The pause after a message that can't be stored or that violates the protocol. Each attempt may load the whole tree.
    public var violationPause: Milliseconds = 600_000
    /// The pause after a refused listen.
    public var refusalPause: Milliseconds = 30_000

    public init() {}
}

extension FollowSettings {
    /// The settings for an upstream.
    init(_ address: UpstreamAddress, _ times: FollowTimes) {
        var connection = ConnectionSettings(
            host: address.host, port: address.port, isSecure: address.isSecure, namespace: address.namespace)
        connection.followsGreeting = true
        connection.redirectDomain = address.domain
        connection.asksForExtension = false
        connection.retryFactor = 1.3
        connection.renewalMargin = 300_000
        connection.shortTokenLife = 600_000
        connection.retriesAfterShutdown = times.shutdownRetry
        connection.silence = times.silence
        // An idle upstream sends nothing, but answers pings.
        connection.pingWhenIdle = times.silence / 2
        connection.firstRetry = times.firstRetry
        connection.longestRetry = times.longestRetry
        self.init(connection)
        violationPause = times.violationPause
        refusalPause = times.refusalPause
    }
}
