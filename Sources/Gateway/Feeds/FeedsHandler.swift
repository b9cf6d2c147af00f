import Feeds
import HTTPServer
import LogStore
import Placement
import Rules
import Runtime
import Wire

/// Serves `/.feeds`: definitions, messages, dead letters and figures of durable change feeds. One for each loop.
final class FeedsHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let databases: Databases
    private let forwarding: FeedForwarding
    private let streams: FeedStreams
    private let pulls: FeedPulls
    private let identity: ForwardingIdentity
    private let link: LoopLink<FeedsHandler>

    init(
        _ services: LoopServices, _ callers: CallerResolver, _ databases: Databases, _ clients: FeedClients,
        _ identity: ForwardingIdentity, _ authenticator: Authenticator
    ) {
        self.identity = identity
        self.services = services
        self.callers = callers
        self.databases = databases
        forwarding = FeedForwarding(clients, identity)
        streams = FeedStreams(services, forwarding, authenticator)
        pulls = FeedPulls(services, authenticator)
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        let parameters = try RESTParameters.settings(request.query)
        let namespace = try NamespaceName.find(request, parameters, services.settings)
        let path = try FeedPath(request.method, request.path)
        // The loop itself parses bodies.
        guard request.body.count <= FeedBodies.Limits.bytes else {
            throw RESTError(413, "A request about feeds has at most \(FeedBodies.Limits.bytes) bytes")
        }
        try callers.withIdentity(request, parameters, namespace: namespace, isForFeed: true, exchange) {
            [self] identity in
            let access =
                path.needsAdministrator || path.name == nil
                ? (identity.mayAdminister ? FeedAccess.any : nil)
                : path.name.flatMap { identity.access(toFeed: $0, in: namespace) }
            guard let access else { return refuse(request, path, namespace, exchange) }
            guard callers.admits(identity, in: namespace, exchange) else { return }
            do throws(RESTError) {
                let call = FeedCall(
                    request, FeedName(namespace: namespace, name: path.name ?? ""), access,
                    client: callers.clientAddress(of: request))
                try serve(path, call, request, exchange, identity)
            } catch {
                services.responder.respond(error, to: exchange)
            }
        }
    }

    /// Refuses a caller without the required permission.
    private func refuse(_ request: HTTPRequest, _ path: FeedPath, _ namespace: String, _ exchange: HTTPExchange) {
        guard request.header(ForwardingSignature.header) != nil, request.header("authorization") == nil else {
            return services.responder.respond(.permissionDenied, to: exchange)
        }
        // Another gateway has forwarded the request, with a key from before this one started, or a second time. The
        // caller's credential is valid, so the answer must not be a refusal: the caller retries.
        FeedAnswer(.noOwner, of: FeedName(namespace: namespace, name: path.name ?? "")).send(to: exchange)
    }

    // MARK: Forwarded requests

    /// Serves a request with the signature of another gateway, which has authenticated the caller and applied all rate
    /// limits. Returns false for every other request, and for requests that only the gateway that received them may
    /// serve.
    func serveForwarded(_ request: HTTPRequest, _ exchange: HTTPExchange) -> Bool {
        guard let (path, feed, feeds) = forwarded(request), request.body.count <= FeedBodies.Limits.bytes,
            let vouched = identity.take(request, feeds.forwardingKey)
        else { return false }
        exchange.namespace = feed.namespace
        let client = IPAddress(vouched.client) ?? request.remoteIP
        let call = FeedCall(request, feed, vouched.access, client: client, opening: vouched.opening)
        do throws(RESTError) {
            try serve(path, call, request, exchange, Identity(.unauthenticated))
        } catch {
            services.responder.respond(error, to: exchange)
        }
        return true
    }

    /// Returns the client's address in the signed header of another gateway, if there is one.
    func client(of head: HTTPRequest) -> IPAddress? {
        forwarded(head).flatMap { identity.client(of: head, $0.feeds.forwardingKey) }
    }

    /// Returns the parts of a request that may have been forwarded. Gateways forward only requests that the gateway
    /// that runs the feed has to answer.
    private func forwarded(_ head: HTTPRequest) -> (path: FeedPath, feed: FeedName, feeds: FeedService)? {
        guard head.header(ForwardingSignature.header) != nil, let path = try? FeedPath(head.method, head.path),
            let parameters = try? RESTParameters.settings(head.query), let namespace = parameters.namespace,
            NamespaceName.isValid(namespace.utf8), let feeds = databases.member(of: namespace)?.feeds
        else { return nil }
        switch path {
        case .pull(let name), .settle(let name, _), .status(let name):
            return (path, FeedName(namespace: namespace, name: name), feeds)
        default: return nil
        }
    }

    private func serve(
        _ path: FeedPath, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange, _ identity: Identity
    ) throws(RESTError) {
        let feed = call.feed
        let namespace = feed.namespace
        // The feeds of the database that contains the namespace.
        guard let feeds = databases.member(of: namespace)?.feeds else {
            return services.responder.respond(
                RESTError(503, "The database is unavailable. Try again later."), to: exchange, retryAfter: 1)
        }
        switch path {
        case .list: list(feeds, call, exchange)
        case .definition(_, .show):
            administer(feeds, .glance, call, exchange) { FeedAnswer(FeedJSON.definition(try $0.feed(feed))) }
        case .definition(_, .apply): apply(feeds, call, request, exchange)
        case .definition(_, .remove):
            administer(feeds, .change, call, exchange) { administration in
                feeds.moved(feed, try administration.remove(feed))
                return FeedAnswer(Array("{\"removed\":true}".utf8))
            }
        case .pull: try pull(feeds, call, request, exchange, identity)
        case .settle(_, let verb): try settle(feeds, call, verb, request, exchange)
        case .stream: try streams.open(feeds, call, request, exchange, identity)
        case .seek:
            let start = try FeedBodies.seek(request.body)
            administer(feeds, .change, call, exchange) { administration in
                let (seq, change) = try administration.seek(feed, to: start)
                feeds.moved(feed, change)
                return FeedAnswer(Array("{\"seq\":\(seq)}".utf8))
            }
        case .dead: try dead(feeds, call, request, exchange)
        case .retry: try change(feeds, call, request, exchange) { try $0.retry(feed, $1) }
        case .drop: try change(feeds, call, request, exchange) { try $0.drop(feed, $1) }
        case .status: status(feeds, call, exchange)
        }
    }

    // MARK: Requests that the database answers

    /// Answers with the result of `body`, which runs on a thread for administration.
    private func administer(
        _ feeds: FeedService, _ kind: FeedService.AdministrationKind, _ call: FeedCall, _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (FeedAdministration) throws -> FeedAnswer
    ) {
        let (feed, access) = (call.feed, call.access)
        let reference = exchange.reference
        let isQueued = feeds.administer(kind, of: feed) {
            try body($0.limited(to: access))
        } then: { result in
            let answer: FeedAnswer
            switch result {
            case .success(let body): answer = body
            case .failure(let error): answer = FeedAnswer(failure: error, of: feed)
            }
            reference.perform { answer.send(to: $0) }
        }
        guard !isQueued else { return }
        FeedAnswer(failure: FeedBusyError(), of: feed).send(to: exchange)
    }

    private func list(_ feeds: FeedService, _ call: FeedCall, _ exchange: HTTPExchange) {
        let namespace = call.feed.namespace
        administer(feeds, .read, call, exchange) { FeedAnswer(FeedJSON.list(try $0.feeds(of: namespace))) }
    }

    private func apply(_ feeds: FeedService, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange) {
        let feed = call.feed
        let body = request.body
        let creates = feeds.settings.createsNamespaces
        administer(feeds, .change, call, exchange) { administration in
            let definition = try FeedDefinition.read(body, name: feed.name, namespace: feed.namespace)
            let applied = try administration.apply(definition, to: feed.namespace, creatingNamespace: creates)
            if let change = applied.change { feeds.moved(feed, change) }
            let warnings = feeds.warnings(definition, in: feed.namespace)
            return FeedAnswer(status: applied.isNew ? 201 : 200, FeedJSON.applied(applied, feed.name, warnings))
        }
    }

    private func dead(_ feeds: FeedService, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange)
        throws(RESTError)
    {
        let feed = call.feed
        let query = FeedQuery(request.query)
        let limit = try query.number("limit", 1...1_000) ?? 100
        let after = query["after"].flatMap { FeedPosition(id: $0, in: feed.namespace) }
        if query["after"] != nil, after == nil { throw RESTError(400, "after must be a message's id") }
        administer(feeds, .read, call, exchange) {
            FeedAnswer(FeedJSON.dead(try $0.deadLetters(feed, after: after, limit: limit)))
        }
    }

    private func change(
        _ feeds: FeedService, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange,
        _ body: @escaping @Sendable (FeedAdministration, LogConnection.DeadLetterSelection) throws -> Int64
    ) throws(RESTError) {
        let feed = call.feed
        let selection: LogConnection.DeadLetterSelection
        switch try FeedBodies.deadLetters(request.body) {
        case .all: selection = .all
        case .key(let key): selection = .key(key)
        case .ids(let ids):
            selection = .positions(ids.compactMap { FeedPosition(id: $0, in: feed.namespace) })
        }
        administer(feeds, .change, call, exchange) { FeedAnswer(Array("{\"count\":\(try body($0, selection))}".utf8)) }
    }

    private func status(_ feeds: FeedService, _ call: FeedCall, _ exchange: HTTPExchange) {
        let (feed, access) = (call.feed, call.access)
        let reference = exchange.reference
        feeds.report(feed, as: access) { [link, forwarding] report, refusal in
            let answer: @Sendable () -> Void = {
                link.post { handler in
                    guard let exchange = handler.services.loop.exchange(for: reference) else { return }
                    handler.administer(feeds, .glance, call, exchange) {
                        FeedAnswer(FeedJSON.status(try $0.status(feed), report, feed.name))
                    }
                }
            }
            guard report == nil, case .elsewhere(let peer)? = refusal else { return answer() }
            // Only the gateway that runs the feed knows all numbers. If it does not answer, this gateway reports those
            // it has.
            let isAsked = forwarding.askStatus(call, of: peer) { theirs in
                guard let theirs else { return answer() }
                reference.perform { theirs.send(to: $0) }
            }
            if !isAsked { answer() }
        }
    }

    // MARK: Requests for the gateway that runs the feed

    /// A worker, not the loop, encodes larger answers.
    private static let heavyBytes = 256 << 10

    private func pull(
        _ feeds: FeedService, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange, _ identity: Identity
    ) throws(RESTError) {
        let (feed, access) = (call.feed, call.access)
        let body = try FeedBodies.pull(request.body, isForwarded: call.isForwarded)
        let (opening, isFirst) = opening(feeds, call, body)
        let hasEventIDs = call.isForwarded && call.opening != nil
        let reference = exchange.reference
        let pull = feeds.pull(
            feed, as: access, consumer: body.consumer, opening: opening, isFirst: isFirst, after: body.after,
            most: body.most, mostHeld: body.mostHeld, waitMilliseconds: body.waitMilliseconds
        ) { [forwarding, workers = services.workers] result in
            switch result {
            case .success(let deliveries):
                let unsent: @Sendable () -> Void = { feeds.unsent(deliveries, feed) }
                // The calling thread serves other feeds as well.
                guard deliveries.reduce(0, { $0 + $1.estimatedBytes }) > Self.heavyBytes else {
                    return reference.perform(otherwise: unsent) {
                        if !FeedAnswer(messages: deliveries, hasEventIDs: hasEventIDs).send(to: $0) { unsent() }
                    }
                }
                let isQueued = workers.submit {
                    let answer = FeedAnswer(messages: deliveries, hasEventIDs: hasEventIDs)
                    reference.perform(otherwise: unsent) { if !answer.send(to: $0) { unsent() } }
                }
                guard !isQueued else { return }
                unsent()
                let refusal = FeedAnswer(RESTError(503, "Too many requests are waiting"), retryAfter: 1)
                reference.perform { refusal.send(to: $0) }
            case .failure(let error):
                // An independent pull gets an opening here, so that its messages can be returned to the feed.
                forwarding.forward(
                    call, "pull", body.forwarded, reference, error.refusal, wait: body.waitMilliseconds,
                    consumer: body.consumer, opening: body.resumes ? opening : FeedOpening())
            }
        }
        exchange.endsWithInput = true
        exchange.onClose = { feeds.cancel(pull) }
        if body.waitMilliseconds > 0 { pulls.add(exchange, identity) }
    }

    /// Returns the consumer's connection that a pull belongs to, and whether the pull opens it. A pull with `resume`
    /// opens its own connection; the pulls that another gateway sends for a stream name the stream's. A pull with
    /// `resume` that requests no messages only ends the connection.
    private func opening(
        _ feeds: FeedService, _ call: FeedCall, _ body: FeedBodies.Pull
    ) -> (opening: FeedOpening?, isFirst: Bool) {
        guard body.resumes else { return (call.opening, false) }
        if body.most == 0, body.after == nil {
            feeds.release(call.feed, as: call.access, consumer: body.consumer, call.opening)
            return (call.opening, false)
        }
        return (body.most > 0 ? call.opening ?? FeedOpening() : nil, true)
    }

    private func settle(
        _ feeds: FeedService, _ call: FeedCall, _ verb: FeedBodies.Verb, _ request: HTTPRequest,
        _ exchange: HTTPExchange
    ) throws(RESTError) {
        let body = try FeedBodies.settlement(verb, request.body, isForwarded: call.isForwarded)
        let reference = exchange.reference
        feeds.settle(
            call.feed, as: call.access, ids: body.ids, consumer: body.consumer, body.settlement
        ) { [forwarding] result in
            switch result {
            case .success(let results):
                let answer = FeedAnswer(ids: body.ids, results: results)
                reference.perform { answer.send(to: $0) }
            case .failure(let error):
                forwarding.forward(call, verb.rawValue, body.forwarded, reference, error.refusal)
            }
        }
    }

    // MARK: Streams

    /// Closes all streams, because the gateway stops. Clients reconnect to another gateway.
    func drain() { streams.drain() }

    func sendKeepAlives() { streams.sendKeepAlives() }

    func endInvalidIdentities() {
        streams.endInvalidIdentities()
        pulls.endInvalidIdentities()
    }
}

/// Requests on one loop that wait for messages. They end when their credentials do. Belongs to its loop's thread.
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
        identityWatch.add(identity, isValid: authenticator.isValid(identity))
    }

    /// Refuses requests whose credentials are no longer valid, and removes those that were answered. Call it about
    /// twice a second.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        waiting.removeAll { !$0.exchange.isOpen }
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for one in waiting {
            if authenticator.isValid(one.identity, now: now) {
                identityWatch.add(one.identity, isValid: true)
                continue
            }
            // Neither this gateway nor another one may deliver messages for the request any more.
            let cancel = one.exchange.onClose
            services.responder.respond(AuthFailure.expired.restError, to: one.exchange)
            cancel?()
        }
    }
}
