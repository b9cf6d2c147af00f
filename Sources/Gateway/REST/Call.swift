import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// A REST request in progress. Belongs to its loop's thread.
final class Call {
    enum Method {
        case get, put, post, patch, delete

        /// Returns the request's method, or the method that a POST names as override.
        init(_ request: HTTPRequest, _ parameters: RESTParameters) throws(RESTError) {
            switch request.method {
            case .get, .head: self = .get
            case .put: self = .put
            case .patch: self = .patch
            case .delete: self = .delete
            case .post:
                let name = request.headerText("x-http-method-override") ?? parameters.methodOverride
                switch name?.uppercased() {
                case nil, "POST": self = .post
                case "PUT": self = .put
                case "PATCH": self = .patch
                case "DELETE": self = .delete
                case "GET": self = .get
                default: throw RESTError(400, "The method override must be GET, PUT, POST, PATCH or DELETE")
                }
            default: throw RESTError(405, "The method must be GET, PUT, POST, PATCH, DELETE, HEAD or OPTIONS")
            }
        }
    }

    let request: HTTPRequest
    let exchange: HTTPExchange
    let method: Method
    let path: Path
    let parameters: RESTParameters
    let identity: Identity
    let namespaceName: String
    /// The client's address. With a trusted proxy it differs from the peer's address.
    let address: IPAddress
    var namespace: LiveNamespace?
    var timer: LoopTimer?
    /// The name of the child that a POST creates.
    var pushedName: String?
    /// Size of a write's body in bytes, uncompressed.
    var bodyBytes = 0
    /// The write's share of the memory budget, held until the answer.
    var memory: MemoryShare?

    init(
        request: HTTPRequest, exchange: HTTPExchange, method: Method, path: Path, parameters: RESTParameters,
        identity: Identity, namespaceName: String, address: IPAddress
    ) {
        self.request = request
        self.exchange = exchange
        self.method = method
        self.path = path
        self.parameters = parameters
        self.identity = identity
        self.namespaceName = namespaceName
        self.address = address
    }

    /// The caller, as rules see it.
    var auth: AuthContext { identity.context }

    /// The origin of a write, for the log.
    var origin: Origin { identity.origin(via: .rest, address: address.description) }

    /// Whether the request has `Accept: text/event-stream`.
    var wantsStream: Bool {
        request.headerText("accept")?.lowercased().contains("text/event-stream") ?? false
    }

    /// Whether the events of a stream have ids.
    ///
    /// Firebase sends no ids, and many of its clients read a stream line by line: `event:`, then `data:`. So the
    /// gateway sends ids only to clients that ask for them: with the parameter `eventIds`, with the id of an earlier
    /// event, or by being a browser, whose `EventSource` resumes by itself. The parameter takes precedence.
    /// `Sec-Fetch-Mode` alone does not identify a browser, because `fetch` of Node sends it.
    var wantsEventIDs: Bool {
        parameters.wantsEventIDs
            ?? (request.header("last-event-id") != nil || request.header("origin") != nil
                || request.header("sec-fetch-site") != nil || request.header("sec-fetch-dest") != nil)
    }

    var wantsETag: Bool {
        request.header("if-none-match") != nil || request.headerText("x-firebase-etag")?.lowercased() == "true"
    }

    var acceptsGzip: Bool { AcceptEncoding.allowsGzip(request.headerText("accept-encoding")) }
}

/// The parts of a request that rules can check before the data is loaded: caller, method, path and query.
struct RequestOutline: Sendable {
    private let method: Call.Method
    private let path: Path
    private let pushedName: String?
    private let query: QueryContext
    private let auth: AuthContext

    /// - Parameter pushedName: a name for the child that a POST would create; nil if it is not known yet.
    init(_ call: Call, pushedName: String? = nil) {
        method = call.method
        path = call.path
        self.pushedName = pushedName
        query = .overREST(call.parameters.query)
        auth = call.auth
    }

    /// Returns false if the rules refuse the request regardless of the stored data.
    func mayBeAnswered(by rules: RuleSet) -> Bool {
        let now = Clock.unixMilliseconds
        switch method {
        case .get: return rules.mayEverRead(path, query: query, auth: auth, now: now)
        case .put, .delete: return rules.refusal(of: path, .path, auth: auth, now: now) == nil
        case .post:
            guard let pushedName else { return rules.refusal(of: path, .pathAndBelow, auth: auth, now: now) == nil }
            return rules.refusal(of: path.appending(Key(pushedName)), .path, auth: auth, now: now) == nil
        case .patch: return rules.refusal(of: path, .pathAndBelow, auth: auth, now: now) == nil
        }
    }
}

/// Requests that wait for a seq to be applied, a body to be parsed, or a write to be committed. Belongs to its loop's
/// thread.
final class WaitingCalls {
    private var calls: [UInt64: Call] = [:]

    var count: Int { calls.count }

    /// Keeps the request until `resume`; removes it if the client disconnects.
    func suspend(_ call: Call) {
        let id = call.exchange.id
        calls[id] = call
        // The closure lives only as long as the exchange, so it retains nothing longer.
        call.exchange.onClose = { [self] in _ = resume(id) }
    }

    /// Removes and returns a waiting request; returns nil if its client has disconnected.
    func resume(_ id: UInt64) -> Call? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        call.timer?.cancel()
        call.timer = nil
        return call
    }
}
