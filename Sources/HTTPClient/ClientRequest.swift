public import Runtime

/// One request to somebody else's server, and how much patience there is with it.
public struct ClientRequest: Sendable {
    public var method = "GET"
    public var url: String
    /// Names and values without line breaks.
    public var headers: [(name: String, value: String)] = []
    public var body: [UInt8] = []
    /// For all of it, redirects included.
    public var timeoutMilliseconds: Milliseconds = 30_000
    public var connectTimeoutMilliseconds: Milliseconds = 10_000
    public var maxResponseBytes = 1 << 20
    /// How many redirects are followed; each must again be as safe as the address given.
    public var maxRedirects = 3
    /// Whether plain `http:` will do, at first and in redirects.
    public var allowsPlainHTTP = false

    public init(_ url: String) { self.url = url }
}

/// A whole response. Any status is a response.
public struct ClientResponse: Sendable {
    public let status: Int
    /// Names in lower case, in the order sent; those of the last response, where there were redirects.
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public init(status: Int, headers: [(name: String, value: String)], body: [UInt8]) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// The first header of a name in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
