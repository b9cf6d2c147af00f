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
    func withIdentity(
        _ request: HTTPRequest, _ parameters: RESTParameters, namespace: String, _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (GatewayLoop, Identity, HTTPExchange) -> Void
    ) throws(RESTError) {
        let override: Authenticator.Override
        do throws(AuthFailure) {
            override = try parameters.authOverride.map { text throws(AuthFailure) in try .init(json: text) } ?? .none
        } catch {
            throw refusal(error, request)
        }
        let credentials = Authenticator.Credentials(
            credential: ShownCredential.find(parameters, authorization: request.headerText("authorization")),
            namespace: namespace, isLoopback: isFromLoopback(request), override: override)
        switch gateway.authenticator.authenticate(credentials) {
        case .now(.success(let identity)): body(self, identity, exchange)
        case .now(.failure(let failure)): throw refusal(failure, request)
        case .later(let whenKnown):
            guard let link else { return }
            let reference = exchange.reference
            whenKnown { result in
                link.post { loop in
                    guard let exchange = loop.loop.exchange(for: reference) else { return }
                    switch result {
                    case .success(let identity): body(loop, identity, exchange)
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
        guard identityWatch.isDue(generation: gateway.authenticator.secrets.generation, now: now) else { return }
        for group in streams.values {
            for stream in group.values {
                if gateway.authenticator.isValid(stream.identity, now: now) {
                    identityWatch.add(stream.identity)
                } else {
                    stream.end(with: StreamEvent.authRevoked)
                }
            }
        }
    }
}
