public import ClientCore
public import HTTPClient
internal import LogStore
public import Runtime

/// What the follower of one namespace needs.
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

/// What the followers of a gateway share.
public struct FollowTools: Sendable {
    let transport: any RealtimeTransport
    let client: HTTPClient
    let readFile: @Sendable (String) throws -> [UInt8]
    /// The time between two reads of the upstream's rules, in milliseconds.
    public var rulesPollMilliseconds: Milliseconds = 300_000

    /// - Parameter readFile: returns the contents of a file of credentials.
    public init(
        transport: any RealtimeTransport, client: HTTPClient,
        readFile: @escaping @Sendable (String) throws -> [UInt8]
    ) {
        self.transport = transport
        self.client = client
        self.readFile = readFile
    }
}

extension FollowSettings {
    /// The settings for an upstream. Facts of the real service: reference, upstream-facts, Connection.
    init(_ address: UpstreamAddress) {
        var connection = ConnectionSettings(
            host: address.host, port: address.port, isSecure: address.isSecure, namespace: address.namespace)
        connection.followsGreeting = true
        connection.asksForExtension = false
        connection.retryFactor = 1.3
        connection.renewalMargin = 300_000
        connection.shortTokenLife = 600_000
        connection.retriesAfterShutdown = 600_000
        // Two keep-alive periods.
        connection.silence = 90_000
        self.init(connection)
    }
}
