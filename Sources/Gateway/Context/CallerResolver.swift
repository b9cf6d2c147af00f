import HTTPServer
import Rules
import Runtime
import Wire

/// Determines the identity and address of a request's caller, and applies the rate limits. One for each loop.
final class CallerResolver {
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

    /// Returns whether an identity that was valid when its request began still is.
    func isStillValid(_ identity: Identity) -> Bool { authenticator.isValid(identity) }

    // MARK: Addresses

    /// Returns the client's address: the peer's, or the address that a trusted proxy reports.
    func clientAddress(of request: HTTPRequest) -> IPAddress {
        limiter.client(request.remoteIP) { request.headerTexts("x-forwarded-for") }
    }

    /// Returns whether a request comes from this machine itself, and not merely through a proxy on this machine. If a
    /// local proxy, trusted or not, reports a client on another machine, the request does not count as local.
    func isFromLoopback(_ request: HTTPRequest) -> Bool {
        guard request.isLoopbackPeer else { return false }
        // Most requests do not pass a proxy.
        if request.header("x-forwarded-for") == nil, request.header("x-real-ip") == nil,
            request.header("forwarded") == nil
        {
            return true
        }
        return ForwardedHeaders.nameOnlyThisMachine(
            addresses: request.headerTexts("x-forwarded-for") + request.headerTexts("x-real-ip"),
            forwarded: request.headerTexts("forwarded"))
    }

    // MARK: Rate limits

    /// Returns whether the limit of the client's address admits a request; answers the request if not. Health checks
    /// are never limited.
    func admits(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        guard limiter.settings.perAddress != nil, !request.path.starts(with: "/.health/".utf8) else { return true }
        return admits(limiter.request(from: clientAddress(of: request)), exchange)
    }

    /// Returns whether the limit of the caller's identity admits a request; answers the request if not.
    func admits(_ identity: Identity, in namespace: String, _ exchange: HTTPExchange) -> Bool {
        admits(limiter.request(by: identity, in: namespace), exchange)
    }

    /// Returns whether the namespace's limit admits a write of `byteCount` bytes; answers the request if not.
    func admitsWrite(_ byteCount: Int, to namespace: String, _ exchange: HTTPExchange) -> Bool {
        admits(limiter.write(byteCount, to: namespace), exchange)
    }

    private func admits(_ refusal: RateLimiter.Refusal?, _ exchange: HTTPExchange) -> Bool {
        guard let refusal else { return true }
        responder.respond(.tooManyRequests, to: exchange, retryAfter: refusal.seconds)
        return false
    }

    // MARK: Identities

    /// Returns the caller's identity, or nil if the credential is rejected or takes another server to check.
    func knownIdentity(_ head: HTTPRequest, _ parameters: RESTParameters, namespace: String) -> Identity? {
        guard case .now(.success(let identity)) = authenticator.authenticate(shown(head, parameters, namespace)) else {
            return nil
        }
        return identity
    }

    /// Determines the caller's identity and passes it to `body`: at once, or when the issuer's keys have arrived. In
    /// the second case this method answers a rejected credential itself.
    ///
    /// - Parameter isForFeed: whether the request is for a feed. All other requests reject feeds' tokens.
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

    /// Returns the answer to a rejected credential. The log has the details for operators.
    private func refusal(_ failure: AuthFailure, _ request: HTTPRequest) -> RESTError {
        if case .unparsable(let reason) = failure {
            logger.debug("credential refused", [("address", "\(clientAddress(of: request))"), ("reason", reason)])
        }
        return failure.restError
    }
}
