import LogStore
public import Runtime

/// Where the gateway that works a feed is reached by other gateways, and how the two authenticate each other.
public struct FeedPeer: Sendable, Equatable {
    /// `https://10.0.0.5:9443`, without a slash at its end.
    public let address: String
    /// Authenticates what is forwarded to it.
    public let key: Secret<[UInt8]>
    /// The SHA-256 of the public key of its certificate; nil where its certificate is checked by its name and authority.
    public let pin: [UInt8]?

    public init(address: String, key: Secret<[UInt8]>, pin: [UInt8]? = nil) {
        self.address = address
        self.key = key
        self.pin = pin
    }

    /// Nil where it can't be reached.
    init?(_ reach: FeedWorkerReach) {
        guard !reach.address.isEmpty else { return nil }
        self.init(address: reach.address, key: reach.key, pin: reach.pin)
    }

    public static func == (left: FeedPeer, right: FeedPeer) -> Bool {
        left.address == right.address && left.key.revealed() == right.key.revealed() && left.pin == right.pin
    }
}

/// Where this gateway listens.
public struct FeedEndpoint: Sendable {
    /// A numeric address, and a port.
    public struct Place: Sendable, Equatable {
        public let host: String
        public let port: UInt16

        public init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }

        /// The host that others can use; nil where it listens on all of its machine's addresses, or on those that only this machine has.
        var reachableHost: String? { isEverywhere || isLoopback ? nil : host }
        var isLoopback: Bool { host == "localhost" || IPAddress(host)?.isLoopback == true }
        private var isEverywhere: Bool { host == "0.0.0.0" || host == "::" }
    }

    /// Where it serves plain HTTP, and where HTTPS; nil where it does not.
    public let plain: Place?
    public let secure: Place?
    /// The SHA-256 of the public key of the certificate in use, which may be replaced at any time.
    public let pin: @Sendable () -> [UInt8]?

    public init(plain: Place?, secure: Place? = nil, pin: @escaping @Sendable () -> [UInt8]? = { nil }) {
        self.plain = plain
        self.secure = secure
        self.pin = pin
    }

    /// The URL at which other gateways reach it: HTTPS is preferred, unless only plain HTTP can be reached from other machines.
    /// Empty where it listens nowhere.
    ///
    /// - Parameter host: the address from which this gateway's connection to the database comes; nil where that is on this machine.
    func address(from host: String?) -> (address: String, isSecure: Bool) {
        func url(_ scheme: String, _ place: Place?) -> String? {
            place.map { place in
                let host = place.reachableHost ?? host ?? "127.0.0.1"
                return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(place.port)"
            }
        }
        let (http, https) = (url("http", plain), url("https", secure))
        let isOnlyPlainReachable = host != nil && secure?.isLoopback == true && plain?.isLoopback == false
        guard let https, !isOnlyPlainReachable || http == nil else { return (http ?? "", false) }
        return (https, true)
    }
}
