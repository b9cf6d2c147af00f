import HTTPServer
import Runtime

/// Requests on one loop that wait for messages: they end when their credentials do. Belongs to its loop's thread.
final class FeedPulls {
    private struct Waiting {
        let exchange: HTTPExchange
        let identity: Identity
    }

    private let services: LoopServices
    private let authenticator: Authenticator
    private var waiting: [Waiting] = []
    private var identityWatch = IdentityWatch()

    init(_ services: LoopServices, _ authenticator: Authenticator) {
        self.services = services
        self.authenticator = authenticator
    }

    func add(_ exchange: HTTPExchange, _ identity: Identity) {
        waiting.append(Waiting(exchange: exchange, identity: identity))
        identityWatch.add(identity)
    }

    /// Refuses those whose credentials hold no more, and forgets those that were answered. To be called twice a second or so.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        waiting.removeAll { !$0.exchange.isOpen }
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for one in waiting {
            if authenticator.isValid(one.identity, now: now) {
                identityWatch.add(one.identity)
                continue
            }
            // Here or elsewhere, nobody is to hand anything out for it.
            let cancel = one.exchange.onClose
            services.responder.respond(AuthFailure.expired.restError, to: one.exchange)
            cancel?()
        }
    }
}
