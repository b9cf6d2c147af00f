/// Where a realtime connection goes.
public struct RealtimeAddress: Sendable, Hashable {
    /// A name or an IP address (IPv6 without brackets).
    public var host: String
    public var port: UInt16
    /// TLS, with the certificate checked against `host`.
    public var isSecure: Bool
    /// The path and query of the upgrade request.
    public var target: String

    public init(host: String, port: UInt16, isSecure: Bool, target: String) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
        self.target = target
    }

    /// The request's `Host` header: without the port where it is the usual one.
    public var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}
