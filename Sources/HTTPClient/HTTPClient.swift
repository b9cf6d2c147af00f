internal import CCurl
public import Runtime
internal import Synchronization

/// Sends requests to other servers, all from one thread of its own. Any thread may use it.
///
/// TLS certificates are always checked. Requests share a fixed number of slots fairly, by their `group` and `member`. Connections are kept
/// for further requests with the same `connections`. Requests use HTTP/1.1.
public final class HTTPClient: Sendable {
    public struct Settings: Sendable {
        public var userAgent = "pathmirror"
        /// A PEM file of authorities to trust instead of the system's.
        public var certificateAuthoritiesFile: String?
        /// Requests that wait for a slot, at most. `FairLedger` says how many of them a group and a member may have.
        public var maxWaiting = 10_000
        /// Slots: requests under way at once, at most. As many connections are kept at most while no request uses them.
        public var maxConnections = 100

        public init() {}
    }

    /// Called once for each request, from the client's thread or that which sends or cancels it; must return soon.
    public typealias Completion = @Sendable (Result<ClientResponse, HTTPClientError>) -> Void

    private let inbox: Inbox
    private let thread: Thread
    private let lastID = Atomic<UInt64>(0)

    /// The thread starts at once and waits without cost.
    public init(_ settings: Settings = Settings()) throws(HTTPClientError) {
        guard Library.isReady, let multi = MultiHandle() else { throw .cannotStart("libcurl refuses") }
        guard let poller = SocketPoller() else { throw .cannotStart("the system has no more descriptors") }
        let inbox = Inbox(poller, slots: settings.maxConnections, places: settings.maxWaiting)
        self.inbox = inbox
        thread = Thread(name: "http-client", isVital: false) { TransferLoop(inbox, multi, poller, settings).run() }
        guard thread.isStarted else { throw .cannotStart("no thread, for want of memory or of threads") }
    }

    deinit { stop() }

    /// Tells a client's requests apart.
    public struct RequestID: Hashable, Sendable {
        let number: UInt64
    }

    /// Sends a request. `completion` is always called, though maybe after `stop`.
    ///
    /// - Returns: what `cancel` takes.
    @discardableResult
    public func send(_ request: ClientRequest, _ completion: @escaping Completion) -> RequestID {
        let id = RequestID(number: lastID.wrappingAdd(1, ordering: .relaxed).newValue)
        let item = Inbox.Item(
            id: id, request: request, sentAt: Clock.monotonicMilliseconds, completion: completion)
        if let refusal = inbox.add(item) { completion(.failure(refusal)) }
        return id
    }

    /// Fails a request with `cancelled`, soon, unless it has ended. Whether the server has it already is not known.
    public func cancel(_ id: RequestID) { inbox.cancel(id) }

    /// Fails what is under way and ends the thread. Later calls do nothing. Not from inside a completion.
    public func stop() {
        inbox.close()
        thread.join()
    }

    private enum Library {
        /// libcurl wants to be told once, before anything else.
        static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }
}

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

/// Why a request has no response. Holds no more of the request than a host's name: addresses may carry secrets.
public enum HTTPClientError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The request itself can't be sent, such as an address that is none.
    case badRequest(String)
    case timedOut
    /// The host's name is not known, or nothing listens there.
    case unreachable(String)
    /// The host leads to addresses that the request must not reach, such as those of private networks.
    case addressNotAllowed(host: String)
    /// The peer is not who it should be, or doesn't speak TLS.
    case insecure(String)
    case tooManyRedirects
    case responseTooLarge
    /// The connection broke, or what came is not HTTP.
    case failed(String)
    /// The request found no slot: too many others wait, or its time to wait is over. No server has seen any of it.
    case notSent(String)
    /// The client was stopped.
    case refused(String)
    /// Somebody has cancelled it.
    case cancelled

    public var description: String {
        switch self {
        case .cannotStart(let what): "The HTTP client can't start: \(what)."
        case .badRequest(let what): "The request can't be sent: \(what)."
        case .timedOut: "The server took too long."
        case .unreachable(let what): "The server can't be reached: \(what)."
        case .addressNotAllowed(let host): "\(host) has no public address, and is not among those that are allowed."
        case .insecure(let what): "The server can't be trusted: \(what)."
        case .tooManyRedirects: "The server redirects too often."
        case .responseTooLarge: "The response is too large."
        case .failed(let what): "The request failed: \(what)."
        case .notSent(let what), .refused(let what): "The request was not sent: \(what)."
        case .cancelled: "The request was cancelled."
        }
    }
}
