import HTTPServer
import Rules
import Runtime
import Wire

/// Tells who makes a request, from where, and whether that is not too often. One for each loop.
final class Callers {
    private let authenticator: Authenticator
    private let limiter: RateLimiter
    private let responder: Responder
    private let logger: Logger
    private let waits: ExchangeWaits<Result<Identity, AuthFailure>>

    init(_ authenticator: Authenticator, _ limiter: RateLimiter, _ logger: Logger, _ services: LoopServices) {
        self.authenticator = authenticator
        self.limiter = limiter
        self.logger = logger
        responder = services.responder
        waits = ExchangeWaits(services.loop)
    }

    // MARK: Where a request comes from

    /// The address of whoever sent a request: the peer's, or what a trusted proxy says.
    func clientAddress(of request: HTTPRequest) -> IPAddress {
        limiter.client(request.remoteIP) { request.headerTexts("x-forwarded-for") }
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

    // MARK: How often

    /// Whether a request may be served, as far as its address goes; it is answered if not. Who watches over the gateway may
    /// ask from any address however often.
    func admits(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        guard limiter.settings.perAddress != nil, !request.path.starts(with: "/.health/".utf8) else { return true }
        return admits(limiter.request(from: clientAddress(of: request)), exchange)
    }

    /// The same for whoever was found to make it.
    func admits(_ identity: Identity, in namespace: String, _ exchange: HTTPExchange) -> Bool {
        admits(limiter.request(by: identity, in: namespace), exchange)
    }

    /// The same for a write of so many bytes.
    func admitsWrite(_ byteCount: Int, to namespace: String, _ exchange: HTTPExchange) -> Bool {
        admits(limiter.write(byteCount, to: namespace), exchange)
    }

    private func admits(_ refusal: RateLimiter.Refusal?, _ exchange: HTTPExchange) -> Bool {
        guard let refusal else { return true }
        responder.respond(.tooManyRequests, to: exchange, retryAfter: refusal.seconds)
        return false
    }

    // MARK: Who

    /// Who shows a credential, where that is known at once and the credential is accepted.
    func knownIdentity(_ head: HTTPRequest, _ parameters: RESTParameters, namespace: String) -> Identity? {
        guard case .now(.success(let identity)) = authenticator.authenticate(shown(head, parameters, namespace)) else {
            return nil
        }
        return identity
    }

    /// Finds out who makes a request, and goes on with it: now, or when the issuer's keys are there. Answers by itself
    /// where the credential is refused then.
    ///
    /// - Parameter isForFeed: whether something of a feed is asked for. Everywhere else feeds' tokens are refused.
    func withIdentity(
        _ request: HTTPRequest, _ parameters: RESTParameters, namespace: String, isForFeed: Bool = false,
        _ exchange: HTTPExchange, _ body: @escaping (Identity) -> Void
    ) throws(RESTError) {
        exchange.namespace = namespace
        var credentials = shown(request, parameters, namespace)
        credentials.isForFeed = isForFeed
        do throws(AuthFailure) {
            if let text = parameters.authOverride { credentials.override = try .init(json: text) }
        } catch {
            throw refusal(error, request)
        }
        switch authenticator.authenticate(credentials) {
        case .now(.success(let identity)): body(identity)
        case .now(.failure(let failure)): throw refusal(failure, request)
        case .later(let whenKnown):
            whenKnown(
                waits.wait(exchange) { [self] result in
                    switch result {
                    case .success(let identity): body(identity)
                    case .failure(let failure): responder.respond(refusal(failure, request), to: exchange)
                    }
                })
        }
    }

    private func shown(
        _ request: HTTPRequest, _ parameters: RESTParameters, _ namespace: String
    ) -> Authenticator.Credentials {
        Authenticator.Credentials(
            credential: ShownCredential.find(parameters, authorization: request.headerText("authorization")),
            namespace: namespace, isLoopback: isFromLoopback(request))
    }

    /// What the caller is told; operators can look up more.
    private func refusal(_ failure: AuthFailure, _ request: HTTPRequest) -> RESTError {
        if case .unparsable(let reason) = failure {
            logger.debug("credential refused", [("address", "\(clientAddress(of: request))"), ("reason", reason)])
        }
        return failure.restError
    }
}
