public import Runtime

/// A steady rate, and how much may come at once after a pause.
public struct RateLimit: Sendable, Equatable {
    public let perSecond: Double
    public let burst: Double

    public init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }

    /// Reads `N/s`, `N/m` or `N/h`, with `:BURST` behind it or not (then as much as N); nil for anything else. All
    /// numbers are whole and positive.
    public init?(_ text: String) { self.init(text, amount: Self.number) }

    /// The same of amounts in another form, such as sizes in bytes.
    ///
    /// - Parameter amount: nil for a text that is no amount.
    public init?(_ text: String, amount: (Substring) -> Int?) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let rate = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard rate.count == 2, let count = amount(rate[0]), count > 0 else { return nil }
        let seconds: Double
        switch rate[1] {
        case "s": seconds = 1
        case "m": seconds = 60
        case "h": seconds = 3_600
        default: return nil
        }
        var burst = count
        if parts.count == 2 {
            guard let given = amount(parts[1]), given > 0 else { return nil }
            burst = given
        }
        self.init(perSecond: Double(count) / seconds, burst: Double(burst))
    }

    private static func number(_ text: Substring) -> Int? {
        guard (1...12).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}

/// How much callers may ask of this gateway; the gateways of a database count separately. Everything is unlimited by default.
public struct RateLimiterSettings: Sendable {
    /// Requests and realtime messages of one IPv4 address or one IPv6 /64 network, whoever they say they are.
    public var perAddress: RateLimit?
    /// Those of one user of a namespace. Administrators and callers without credentials are not limited by this.
    public var perIdentity: RateLimit?
    /// Bytes of the values written to one namespace, by anybody.
    public var writeBytes: RateLimit?
    /// Proxies whose `X-Forwarded-For` is believed. They are not limited themselves.
    public var trustedProxies: [IPNetwork] = []
    /// Addresses, and identities, that are remembered; of more than that the one not heard of for longest is forgotten.
    public var maxTracked = 65_536
    /// Refused messages in a row after which a realtime client is cut off: it does not listen.
    public var maxRefusedMessages = 100

    public init() {}
}
