import HTTPServer
import Runtime
import Synchronization
import Wire

/// Admits or refuses requests by the web page that they come from, and sets the headers that allow pages to read
/// answers. One for each loop.
final class PageGate {
    private let policy: PagePolicy
    private let strictTransportSeconds: Int
    private let refusals: RefusedPages
    private let callers: CallerResolver
    private let responder: Responder
    private let logger: Logger
    /// The `Host` header of the last admitted request of a program. The next program most likely uses the same name.
    private var programsHost: [UInt8] = []
    /// The gateway's name in the last request over TLS, and whether that name means this machine.
    private var securedName: (host: [UInt8], isThisMachine: Bool) = ([], true)

    init(_ refusals: RefusedPages, _ callers: CallerResolver, _ logger: Logger, _ services: LoopServices) {
        policy = services.settings.pages
        strictTransportSeconds = services.settings.strictTransportSeconds
        self.refusals = refusals
        self.callers = callers
        responder = services.responder
        self.logger = logger
    }

    /// Returns whether a request may be served; answers the request if not. Also sets the headers that determine which
    /// page may read the answer.
    func admits(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        if isLikeTheLastProgram(request) {
            exchange.commonHeaders = commonHeaders(.admitted(origin: nil), request)
            return true
        }
        let verdict = policy.judge(policy.isOpen ? PagePolicy.Signs() : PagePolicy.Signs(request))
        exchange.commonHeaders = commonHeaders(verdict, request)
        guard case .refused(let refusal) = verdict else {
            if case .admitted(origin: nil) = verdict, isPlain(request), let host = request.header("host") {
                programsHost = Array(host)
            }
            return true
        }
        let text = refusal.text(isSecure: request.isSecure)
        // The author of the page sees only that the request failed. The reason is in the log.
        if refusals.isNew(refusal) {
            logger.warning(text, [("address", "\(callers.clientAddress(of: request))")])
        }
        responder.respond(RESTError(403, text), to: exchange)
        return false
    }

    /// Returns whether a request carries no sign of a page and has the same `Host` as an admitted request. Most
    /// requests do, so they need no further parsing.
    private func isLikeTheLastProgram(_ request: HTTPRequest) -> Bool {
        !programsHost.isEmpty && isPlain(request) && request.header("host")?.elementsEqual(programsHost) == true
    }

    /// Returns whether a request has no header that a browser adds, and names the gateway only in its `Host` header.
    private func isPlain(_ request: HTTPRequest) -> Bool {
        request.target.first == UInt8(ascii: "/") && request.header("origin") == nil
            && request.header("sec-fetch-site") == nil && request.header("referer") == nil
    }

    private func commonHeaders(_ verdict: PagePolicy.Verdict, _ request: HTTPRequest) -> HTTPHeaders {
        var headers = Self.headers(verdict, isMetrics: request.path.elementsEqual("/.metrics".utf8))
        if strictTransportSeconds > 0, request.isSecure, !isNamedAsThisMachine(request) {
            headers.add("Strict-Transport-Security", "max-age=\(strictTransportSeconds)")
        }
        return headers
    }

    /// Returns whether a request names the gateway as this machine. Browsers would apply `Strict-Transport-Security` to
    /// all ports of `localhost`, and so to other programs in development on this machine.
    private func isNamedAsThisMachine(_ request: HTTPRequest) -> Bool {
        guard let host = request.host else { return true }
        if !host.elementsEqual(securedName.host) {
            let isThisMachine = Authority(Substring(decoding: host, as: UTF8.self))?.host.isLoopback ?? true
            securedName = (Array(host), isThisMachine)
        }
        return securedName.isThisMachine
    }

    /// Returns the headers that determine which page may read an answer.
    static func headers(_ verdict: PagePolicy.Verdict, isMetrics: Bool) -> HTTPHeaders {
        switch verdict {
        // Metrics need no credential; only the missing header keeps pages from reading them.
        case .all: isMetrics ? [:] : publicHeaders
        case .refused, .admitted(origin: nil): programsHeaders
        case .admitted(let origin?): ["Vary": "Origin", "Access-Control-Allow-Origin": origin]
        }
    }

    private static let programsHeaders: HTTPHeaders = ["Vary": "Origin"]
    private static let publicHeaders: HTTPHeaders = ["Access-Control-Allow-Origin": "*"]
}

extension PagePolicy.Signs {
    init(_ request: HTTPRequest) {
        hosts = request.headerTexts("host")
        // A host in the request target takes precedence over the `Host` header.
        if let host = request.host.map({ String(decoding: $0, as: UTF8.self) }), !hosts.contains(host) {
            hosts.append(host)
        }
        origins = request.headerTexts("origin")
        site = request.headerText("sec-fetch-site")
        referer = request.headerText("referer")
    }
}

/// The refusals that were logged. Their number is limited, because a page may retry forever and under any name.
final class RefusedPages: Sendable {
    private static let most = 64
    private let seen = Mutex<Set<PageRefusal>>([])

    /// Returns whether a refusal is new and should be logged.
    func isNew(_ refusal: PageRefusal) -> Bool {
        seen.withLock { seen in seen.count < Self.most && seen.insert(refusal).inserted }
    }
}
