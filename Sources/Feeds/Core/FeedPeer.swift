import LogStore
public import Runtime

/// The address of the gateway that runs a feed, and the secrets with which the two gateways authenticate each other.
public struct FeedPeer: Sendable, Equatable {
    /// The URL without a trailing slash, such as `https://10.0.0.5:9443`.
    public let address: String
    /// The key that authenticates requests forwarded to the gateway.
    public let key: Secret<[UInt8]>
    /// The SHA-256 of the public key of the gateway's certificate, or nil if the certificate is verified by name and authority.
    public let pin: [UInt8]?

    public init(address: String, key: Secret<[UInt8]>, pin: [UInt8]? = nil) {
        self.address = address
        self.key = key
        self.pin = pin
    }

    /// Returns nil if the gateway cannot be reached.
    init?(_ reach: FeedWorkerReach) {
        guard !reach.address.isEmpty else { return nil }
        self.init(address: reach.address, key: reach.key, pin: reach.pin)
    }

    public static func == (left: FeedPeer, right: FeedPeer) -> Bool {
        left.address == right.address && left.key.revealed() == right.key.revealed() && left.pin == right.pin
    }
}

/// The addresses on which this gateway listens.
public struct FeedEndpoint: Sendable {
    /// A numeric host address and a port.
    public struct Address: Sendable, Equatable {
        public let host: String
        public let port: UInt16

        public init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }

        /// The host that other machines can use, or nil if the gateway listens on all addresses of its machine or on a loopback address.
        var reachableHost: String? { isEverywhere || isLoopback ? nil : host }
        var isLoopback: Bool { host == "localhost" || IPAddress(host)?.isLoopback == true }
        private var isEverywhere: Bool { host == "0.0.0.0" || host == "::" }
    }

    /// The addresses for plain HTTP and for HTTPS, or nil if not served.
    public let plain: Address?
    public let secure: Address?
    /// Returns the SHA-256 of the public key of the current certificate, which may be replaced at any time.
    public let pin: @Sendable () -> [UInt8]?

    public init(plain: Address?, secure: Address? = nil, pin: @escaping @Sendable () -> [UInt8]? = { nil }) {
        self.plain = plain
        self.secure = secure
        self.pin = pin
    }

    /// Returns the URL at which other gateways reach this gateway: HTTPS, unless other machines can reach only plain HTTP. The URL
    /// is empty if the gateway does not listen.
    ///
    /// - Parameter host: The address from which this gateway connects to the database, or nil if the database is on this machine.
    func address(from host: String?) -> (address: String, isSecure: Bool) {
        func url(_ scheme: String, _ address: Address?) -> String? {
            address.map { address in
                let host = address.reachableHost ?? host ?? "127.0.0.1"
                return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(address.port)"
            }
        }
        let (http, https) = (url("http", plain), url("https", secure))
        let isOnlyPlainReachable = host != nil && secure?.isLoopback == true && plain?.isLoopback == false
        guard let https, !isOnlyPlainReachable || http == nil else { return (http ?? "", false) }
        return (https, true)
    }
}
