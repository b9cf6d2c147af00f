public import Runtime

/// One request to somebody else's server, and how much patience there is with it.
public struct ClientRequest: Sendable {
    public var method = "GET"
    public var url: String
    /// Names and values without line breaks.
    public var headers: [(name: String, value: String)] = []
    /// Headers for the address given and no other: after a redirect to another scheme, host or port they are left out.
    public var credentials: [(name: String, value: String)] = []
    public var body: [UInt8] = []
    /// The time for the whole request, redirects included, from `send` on; with `queueMilliseconds` from the moment it has a slot.
    public var timeoutMilliseconds: Milliseconds = 30_000
    /// How long the request may wait for a slot. Nil lets it wait until its timeout. Afterwards it fails with `notSent`.
    public var queueMilliseconds: Milliseconds?
    /// Who shares the client's slots: first the groups, then the members of each group. In a gateway these are namespaces and feeds.
    public var group = ""
    public var member = ""
    /// Whether the request overtakes others of its member that wait for a slot.
    public var isUrgent = false
    /// Names the connections that the request may use. A connection is reused only by requests with the name of the request that opened it.
    public var connections = ""
    public var connectTimeoutMilliseconds: Milliseconds = 10_000
    public var maxResponseBytes = 1 << 20
    /// Whether a response may be longer than `maxResponseBytes`: the rest of it is not read.
    public var truncatesResponse = false
    /// How many redirects are followed; each must again be as safe as the address given.
    public var maxRedirects = 3
    public var redirects = Redirects.all
    /// Whether plain `http:` will do, at first and in redirects.
    public var allowsPlainHTTP = false
    /// Which addresses are connected to, whatever names lead to them.
    public var addresses = AddressPolicy.any
    /// The only public key that the server may prove to have: Base64 of the SHA-256 of its SubjectPublicKeyInfo. The certificate's names,
    /// times and authority count for nothing then. Nil: they decide, as usual. Plain HTTP is refused where it is given.
    public var pinnedPublicKey: String?
    /// Whether the request goes straight to the server, whatever proxy the environment names.
    public var avoidsProxies = false

    public init(_ url: String) { self.url = url }

    /// Which redirects are followed; what is not followed is a response.
    public enum Redirects: Sendable {
        /// 301, 302 and 303 lead to a GET without a body (or a HEAD, if that was asked), 307 and 308 to the same request.
        case all
        /// 307 and 308 alone, with the body sent again: a request that is to change something is not turned into one that reads.
        case sameRequest
    }
}

/// A whole response. Any status is a response.
public struct ClientResponse: Sendable {
    public let status: Int
    /// Names in lower case, in the order sent; those of the last response, where there were redirects.
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]
    /// The body goes on beyond what was wanted of it.
    public let isTruncated: Bool

    public init(status: Int, headers: [(name: String, value: String)], body: [UInt8], isTruncated: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isTruncated = isTruncated
    }

    /// The first header of a name in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
