import HTTPServer
import Runtime
import Synchronization
import Wire

extension GatewayLoop {
    /// Whether a request may be served, as far as the page goes that it comes from; it is answered if not. Also says of
    /// whatever answer is given who may read it.
    func admitsPage(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        if isLikeTheLastProgram(request) {
            exchange.commonHeaders = Self.programsHeaders
            return true
        }
        let policy = gateway.settings.pages
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
        if gateway.refusedPages.isNew(refusal) {
            gateway.logger.warning(text, [("address", "\(clientAddress(of: request))")])
        }
        respond(RESTError(403, text), to: exchange)
        return false
    }

    /// Whether a request says nothing of a page, and of the gateway's name what one said before that was let in. Most are
    /// such, and need not be taken apart.
    private func isLikeTheLastProgram(_ request: HTTPRequest) -> Bool {
        !programsHost.isEmpty && isPlain(request) && request.header("host")?.elementsEqual(programsHost) == true
    }

    /// Without anything that a browser adds, and with the `Host` header alone for a name.
    private func isPlain(_ request: HTTPRequest) -> Bool {
        request.target.first == UInt8(ascii: "/") && !request.isSecure && request.header("origin") == nil
            && request.header("sec-fetch-site") == nil && request.header("referer") == nil
    }

    private func commonHeaders(_ verdict: PagePolicy.Verdict, _ request: HTTPRequest) -> HTTPHeaders {
        var headers = pageHeaders(verdict, request)
        let seconds = gateway.settings.strictTransportSeconds
        if seconds > 0, request.isSecure, !isNamedAsThisMachine(request) {
            headers.add("Strict-Transport-Security", "max-age=\(seconds)")
        }
        return headers
    }

    /// Browsers would keep it for all ports of `localhost`, and so for whatever else is developed on this machine.
    private func isNamedAsThisMachine(_ request: HTTPRequest) -> Bool {
        guard let host = request.host else { return true }
        return Authority(Substring(decoding: host, as: UTF8.self))?.host.isLoopback ?? true
    }

    private func pageHeaders(_ verdict: PagePolicy.Verdict, _ request: HTTPRequest) -> HTTPHeaders {
        switch verdict {
        // Metrics ask for no credential: what keeps pages from reading them is that they may not.
        case .everybody: return request.path.elementsEqual("/.metrics".utf8) ? [:] : Self.everybodysHeaders
        case .refused, .admitted(origin: nil): return Self.programsHeaders
        case .admitted(let origin?): return ["Vary": "Origin", "Access-Control-Allow-Origin": origin]
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
