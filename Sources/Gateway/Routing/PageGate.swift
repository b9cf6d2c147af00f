import HTTPServer
import Runtime
import Synchronization
import Wire

/// Lets requests in or not, as far as the web page goes that they come from, and says who may read the answers. One for
/// each loop.
final class PageGate {
    private let policy: PagePolicy
    private let strictTransportSeconds: Int
    private let refusals: RefusedPages
    private let callers: Callers
    private let responder: Responder
    private let logger: Logger
    /// The `Host` of the last program that was let in. The next one calls the gateway by the same name, most likely.
    private var programsHost: [UInt8] = []
    /// What the last request over TLS called the gateway, and whether that means this machine.
    private var securedName: (host: [UInt8], isThisMachine: Bool) = ([], true)

    init(_ refusals: RefusedPages, _ callers: Callers, _ logger: Logger, _ services: LoopServices) {
        policy = services.settings.pages
        strictTransportSeconds = services.settings.strictTransportSeconds
        self.refusals = refusals
        self.callers = callers
        responder = services.responder
        self.logger = logger
    }

    /// Whether a request may be served; it is answered if not. Also says of whatever answer is given who may read it.
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
        // Who writes the page sees no more than that it failed: the log is where to look.
        if refusals.isNew(refusal) {
            logger.warning(text, [("address", "\(callers.clientAddress(of: request))")])
        }
        responder.respond(RESTError(403, text), to: exchange)
        return false
    }

    /// Whether a request says nothing of a page, and of the gateway's name what one said before that was let in. Most are
    /// such, and need not be taken apart.
    private func isLikeTheLastProgram(_ request: HTTPRequest) -> Bool {
        !programsHost.isEmpty && isPlain(request) && request.header("host")?.elementsEqual(programsHost) == true
    }

    /// Without anything that a browser adds, and with the `Host` header alone for a name.
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

    /// Browsers would keep it for all ports of `localhost`, and so for whatever else is developed on this machine.
    private func isNamedAsThisMachine(_ request: HTTPRequest) -> Bool {
        guard let host = request.host else { return true }
        if !host.elementsEqual(securedName.host) {
            let isThisMachine = Authority(Substring(decoding: host, as: UTF8.self))?.host.isLoopback ?? true
            securedName = (Array(host), isThisMachine)
        }
        return securedName.isThisMachine
    }

    /// The headers that say who may read an answer.
    static func headers(_ verdict: PagePolicy.Verdict, isMetrics: Bool) -> HTTPHeaders {
        switch verdict {
        // Metrics ask for no credential: what keeps pages from reading them is that they may not.
        case .everybody: isMetrics ? [:] : everybodysHeaders
        case .refused, .admitted(origin: nil): programsHeaders
        case .admitted(let origin?): ["Vary": "Origin", "Access-Control-Allow-Origin": origin]
        }
    }

    private static let programsHeaders: HTTPHeaders = ["Vary": "Origin"]
    private static let everybodysHeaders: HTTPHeaders = ["Access-Control-Allow-Origin": "*"]
}

extension PagePolicy.Signs {
    init(_ request: HTTPRequest) {
        hosts = request.headerTexts("host")
        // The one that counts, where the target names one.
        if let host = request.host.map({ String(decoding: $0, as: UTF8.self) }), !hosts.contains(host) {
            hosts.append(host)
        }
        origins = request.headerTexts("origin")
        site = request.headerText("sec-fetch-site")
        referer = request.headerText("referer")
    }
}

/// The refusals that the log has. A page may try for ever, and by any name: the first few tell enough.
final class RefusedPages: Sendable {
    private static let most = 64
    private let seen = Mutex<Set<PageRefusal>>([])

    /// Whether a refusal should be logged, once.
    func isNew(_ refusal: PageRefusal) -> Bool {
        seen.withLock { seen in seen.count < Self.most && seen.insert(refusal).inserted }
    }
}
