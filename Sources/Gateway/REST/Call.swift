import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// One REST request on its way. Belongs to its loop's thread.
final class Call {
    enum Method {
        case get, put, post, patch, delete

        /// The request's method, or the one that a POST says it stands for.
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
    /// Whom it comes from; behind a trusted proxy that is not the peer.
    let address: IPAddress
    var namespace: LiveNamespace?
    var timer: LoopTimer?
    /// The child that a POST makes.
    var pushedName: String?
    /// Bytes of a write's body, uncompressed.
    var bodyBytes = 0
    /// What of memory the write has taken, until it is answered.
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

    /// Whom the rules judge.
    var auth: AuthContext { identity.context }

    /// Who makes a write, for the log.
    var origin: Origin { identity.origin(via: .rest, address: address.description) }

    /// `Accept: text/event-stream`
    var wantsStream: Bool {
        request.headerText("accept")?.lowercased().contains("text/event-stream") ?? false
    }

    /// Whether the events of a stream are to have ids.
    ///
    /// Firebase sends none, and many of its clients read a stream line by line: `event:`, then `data:`. So ids are sent
    /// to clients that ask for them: by the parameter `eventIds`, with the id of an earlier event, or as browsers, whose
    /// `EventSource` resumes by itself. The parameter decides where it is given. `Sec-Fetch-Mode` alone is no sign of a browser:
    /// `fetch` of Node sends it.
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

/// What rules look at of a request before the data is there: who asks for what, and where.
struct RequestOutline: Sendable {
    private let method: Call.Method
    private let path: Path
    private let pushedName: String?
    private let query: QueryContext
    private let auth: AuthContext

    /// - Parameter pushedName: A name for the child that a POST would make; nil where that is not known yet.
    init(_ call: Call, pushedName: String? = nil) {
        method = call.method
        path = call.path
        self.pushedName = pushedName
        query = .overREST(call.parameters.query)
        auth = call.auth
    }

    /// Whether there may be data with which rules would let the request in; false where they refuse it whatever is stored.
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

/// Requests that wait: for a seq to be applied, a body to be parsed, a write to be committed. Belongs to its loop's thread.
final class WaitingCalls {
    private var calls: [UInt64: Call] = [:]

    var count: Int { calls.count }

    /// Keeps the request until `resume`; forgets it when the client goes away.
    func suspend(_ call: Call) {
        let id = call.exchange.id
        calls[id] = call
        // Ends with the exchange, and so keeps nothing for longer.
        call.exchange.onClose = { [self] in _ = resume(id) }
    }

    /// The waiting request, which then waits no more; nil when its client is gone.
    func resume(_ id: UInt64) -> Call? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        call.timer?.cancel()
        call.timer = nil
        return call
    }
}
