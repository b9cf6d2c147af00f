import HTTPServer
public import Runtime
import Wire

extension Gateway {
    /// Makes these the secrets that hold from now on; what rests on others ends. Any thread.
    public func replaceSecrets(
        administrators: [Secret<[UInt8]>], databases: [String: [Secret<[UInt8]>]]
    ) {
        authenticator.secrets.replace(administrators: administrators, databases: databases)
    }
}

extension GatewayLoop {
    /// Finds out who makes a request, and goes on with it: now, or when the issuer's keys are there. Answers by itself
    /// where the credential is refused.
    func withSession(
        _ request: HTTPRequest, _ parameters: RESTParameters, namespace: String, _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (GatewayLoop, Session, HTTPExchange) -> Void
    ) throws(RESTError) {
        let override: Authenticator.Override
        do throws(AuthFailure) {
            override = try parameters.authOverride.map { text throws(AuthFailure) in try .init(json: text) } ?? .none
        } catch {
            throw refusal(error, request)
        }
        let question = Authenticator.Question(
            credential: ShownCredential.find(parameters, authorization: request.headerText("authorization")),
            namespace: namespace, isLoopback: isFromLoopback(request), override: override)
        switch gateway.authenticator.authenticate(question) {
        case .now(.success(let session)): body(self, session, exchange)
        case .now(.failure(let failure)): throw refusal(failure, request)
        case .later(let whenKnown):
            guard let link else { return }
            let reference = exchange.reference
            whenKnown { result in
                link.post { loop in
                    guard let exchange = loop.loop.exchange(for: reference) else { return }
                    switch result {
                    case .success(let session): body(loop, session, exchange)
                    case .failure(let failure): loop.respond(loop.refusal(failure, request), to: exchange)
                    }
                }
            }
        }
    }

    /// What the caller is told; operators can look up more.
    private func refusal(_ failure: AuthFailure, _ request: HTTPRequest) -> RESTError {
        if case .unparsable(let reason) = failure {
            gateway.logger.debug(
                "credential refused", [("address", "\(clientAddress(of: request))"), ("reason", reason)])
        }
        return failure.restError
    }
}

// MARK: - Sessions that end

extension GatewayLoop {
    private static let lookMilliseconds = 500

    /// Ends what rests on credentials that hold no more. Looks twice a second whether there can be any.
    func watchSessions() {
        loop.schedule(everyMilliseconds: Self.lookMilliseconds) { [weak self] in self?.endSessions() }
    }

    private func endSessions() {
        let now = Clock.unixMilliseconds
        guard sessionWatch.isDue(generation: gateway.authenticator.secrets.generation, now: now) else { return }
        for group in streams.values {
            for stream in group.values {
                if gateway.authenticator.isValid(stream.session, now: now) {
                    sessionWatch.add(stream.session)
                } else {
                    stream.end(with: StreamEvent.authRevoked)
                }
            }
        }
    }
}
