import HTTPServer
import Wire

extension RESTError {
    static let tooManyRequests = RESTError(429, "Too many requests")
}

extension GatewayLoop {
    /// Whether a request may be served, as far as its page and its address go; it is answered if not. Who watches over
    /// the gateway may ask from any address however often.
    func admits(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        guard admitsPage(request, exchange) else { return false }
        let limiter = gateway.limiter
        guard limiter.settings.perAddress != nil, !request.path.starts(with: "/.health/".utf8) else { return true }
        return admits(limiter.request(from: clientAddress(of: request)), exchange)
    }

    /// Answers 429 where there is a refusal.
    func admits(_ refusal: RateLimiter.Refusal?, _ exchange: HTTPExchange) -> Bool {
        guard let refusal else { return true }
        respond(.tooManyRequests, to: exchange, retryAfter: refusal.seconds)
        return false
    }

    /// The address of whoever sent a request: the peer's, or what a trusted proxy says.
    func clientAddress(of request: HTTPRequest) -> IPAddress {
        gateway.limiter.client(request.remoteIP) {
            request.headerTexts("x-forwarded-for")
        }
    }

    /// Whether a request comes from this machine itself, and not only through a proxy on it, trusted or not: one that says
    /// for whom it speaks is taken at its word when that is somebody else.
    func isFromLoopback(_ request: HTTPRequest) -> Bool {
        guard request.isLoopbackPeer else { return false }
        // Most requests come by no proxy.
        if request.header("x-forwarded-for") == nil, request.header("x-real-ip") == nil,
            request.header("forwarded") == nil
        {
            return true
        }
        return ForwardedHeaders.nameOnlyThisMachine(
            addresses: request.headerTexts("x-forwarded-for") + request.headerTexts("x-real-ip"),
            forwarded: request.headerTexts("forwarded"))
    }
}
