internal import CCurl
public import Runtime
internal import Synchronization

/// Sends requests to other servers on one thread of its own. Usable on any thread.
///
/// TLS certificates are always verified. Requests share a fixed number of slots fairly, according to their `group` and `member`.
/// Connections are kept for further requests with the same `connections`. Requests use HTTP/1.1.
public final class HTTPClient: Sendable {
    public struct Settings: Sendable {
        public var userAgent = "pathmirror"
        /// A PEM file of certificate authorities to trust instead of the system's.
        public var certificateAuthoritiesFile: String?
        /// The maximum number of requests that wait for a slot. `FairLedger` limits the share of a group and a member.
        public var maxWaiting = 10_000
        /// The number of slots, which is the maximum number of requests in flight. It is also the maximum number of
        /// connections kept without a request.
        public var maxConnections = 100

        public init() {}
    }

    /// Called once for each request, on the client's thread or on the thread that sends or cancels the request. Must return soon.
    public typealias Completion = @Sendable (Result<ClientResponse, HTTPClientError>) -> Void

    private let inbox: Inbox
    private let thread: Thread
    private let lastID = Atomic<UInt64>(0)

    /// Starts the thread, which waits without cost.
    public init(_ settings: Settings = Settings()) throws(HTTPClientError) {
        guard Library.isReady, let multi = MultiHandle() else { throw .cannotStart("libcurl can't be initialized") }
        guard let poller = SocketPoller() else { throw .cannotStart("the system has no more file descriptors") }
        let inbox = Inbox(poller, slots: settings.maxConnections, capacity: settings.maxWaiting)
        self.inbox = inbox
        thread = Thread(name: "http-client", isVital: false) { TransferLoop(inbox, multi, poller, settings).run() }
        guard thread.isStarted else {
            throw .cannotStart("no thread could be created: memory or threads are exhausted")
        }
    }

    deinit { stop() }

    /// Identifies a request of a client.
    public struct RequestID: Hashable, Sendable {
        let number: UInt64
    }

    /// Sends a request. `completion` is always called, perhaps after `stop`.
    ///
    /// - Returns: The id for `cancel`.
    @discardableResult
    public func send(_ request: HTTPClientRequest, _ completion: @escaping Completion) -> RequestID {
        let id = RequestID(number: lastID.wrappingAdd(1, ordering: .relaxed).newValue)
        let item = Inbox.Item(
            id: id, request: request, sentAt: Clock.monotonicMilliseconds, completion: completion)
        if let refusal = inbox.add(item) { completion(.failure(refusal)) }
        return id
    }

    /// Fails a request with `cancelled` soon, unless it has ended. The server may already have received the request.
    public func cancel(_ id: RequestID) { inbox.cancel(id) }

    /// Fails the requests in flight and ends the thread. Later calls do nothing.
    /// Must not be called from a completion.
    public func stop() {
        inbox.close()
        thread.join()
    }

    private enum Library {
        /// libcurl requires one global initialization before any other call.
        static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }
}

/// A request to another server, with its timeouts and limits.
public struct HTTPClientRequest: Sendable {
    public var method = "GET"
    public var url: String
    /// Names and values, which must not contain line breaks.
    public var headers: [(name: String, value: String)] = []
    /// Headers for the origin of `url` only. They are omitted after a redirect to another scheme, host or port.
    public var credentials: [(name: String, value: String)] = []
    public var body: [UInt8] = []
    /// The timeout for the whole request including redirects. It starts at `send`, or, with `queueMilliseconds`, when
    /// the request gets a slot.
    public var timeoutMilliseconds: Milliseconds = 30_000
    /// How long the request may wait for a slot; then it fails with `notSent`. Nil lets it wait until its timeout.
    public var queueMilliseconds: Milliseconds?
    /// The unit of sharing for the client's slots: groups share them first, then the members of each group. In a gateway these
    /// are namespaces and feeds.
    public var group = ""
    public var member = ""
    /// Whether the request overtakes other requests of its member that wait for a slot.
    public var isUrgent = false
    /// The name of the connections that the request may use. A connection is reused only by requests with the name of
    /// the request that opened it.
    public var connections = ""
    public var connectTimeoutMilliseconds: Milliseconds = 10_000
    public var maxResponseBytes = 1 << 20
    /// Whether a longer response than `maxResponseBytes` is truncated. Otherwise it fails.
    public var truncatesResponse = false
    /// The maximum number of redirects to follow. Each must meet the same security requirements as `url`.
    public var maxRedirects = 3
    public var redirects = Redirects.all
    /// Whether plain `http:` is allowed, in `url` and in redirects.
    public var allowsPlainHTTP = false
    /// The addresses to which the request may connect, regardless of the names that resolve to them.
    public var addresses = AddressPolicy.any
    /// The only acceptable public key of the server: Base64 of the SHA-256 of its SubjectPublicKeyInfo. The certificate's names,
    /// validity and authority are then not verified. Nil for the usual verification.
    /// A pinned request refuses plain HTTP.
    public var pinnedPublicKey: String?
    /// Whether the request goes directly to the server, even if the environment configures a proxy.
    public var avoidsProxies = false

    public init(_ url: String) { self.url = url }

    /// The redirects to follow. Any other redirect is returned as the response.
    public enum Redirects: Sendable {
        /// 301, 302 and 303 become a GET without a body (or remain a HEAD); 307 and 308 repeat the request.
        case all
        /// Only 307 and 308, which repeat the request with its body. A request that changes something never becomes a read.
        case sameRequest
    }
}

/// A whole response, with any status.
public struct ClientResponse: Sendable {
    public let status: Int
    /// The headers of the last response, after redirects. Names are in lower case; the order is as sent.
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]
    /// Whether the body was cut at `maxResponseBytes`.
    public let isTruncated: Bool

    public init(status: Int, headers: [(name: String, value: String)], body: [UInt8], isTruncated: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isTruncated = isTruncated
    }

    /// Returns the value of the first header with a name in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// The reason why a request has no response. Contains no more of the request than a host name, because URLs may contain secrets.
public enum HTTPClientError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The request is invalid, for example its URL.
    case badRequest(String)
    case timedOut
    /// The host's name is unknown, or the host refuses connections.
    case unreachable(String)
    /// The host resolves to addresses that the request must not reach, such as those of private networks.
    case addressNotAllowed(host: String)
    /// The server's identity could not be verified, or it does not speak TLS.
    case insecure(String)
    case tooManyRedirects
    case responseTooLarge
    /// The connection broke, or the answer is not HTTP.
    case failed(String)
    /// The request got no slot: too many other requests wait, or its time to wait is over. No server has received any of it.
    case notSent(String)
    /// The client was stopped.
    case refused(String)
    /// The caller has cancelled the request.
    case cancelled

    public var description: String {
        switch self {
        case .cannotStart(let what): "The HTTP client can't start: \(what)."
        case .badRequest(let what): "The request can't be sent: \(what)."
        case .timedOut: "The server took too long."
        case .unreachable(let what): "The server can't be reached: \(what)."
        case .addressNotAllowed(let host): "\(host) has no public address, and is not an allowed address."
        case .insecure(let what): "The server can't be trusted: \(what)."
        case .tooManyRedirects: "The server redirects too often."
        case .responseTooLarge: "The response is too large."
        case .failed(let what): "The request failed: \(what)."
        case .notSent(let what), .refused(let what): "The request was not sent: \(what)."
        case .cancelled: "The request was cancelled."
        }
    }
}
