import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// One event loop's part of the gateway: takes requests, keeps what waits for an answer, and the loop's streams. Lives
/// on its loop's thread; others reach it by `LoopLink`.
final class GatewayLoop: HTTPLoopHandler {
    let gateway: Gateway
    let loop: EventLoop
    /// Requests that wait: for a namespace to load, a seq to be applied, a body to be parsed, a write to be committed.
    var calls: [UInt64: Call] = [:]
    var streams: [ObjectIdentifier: [UInt64: Stream]] = [:]
    /// Realtime sessions by id, and their listens by group.
    var sessions: [String: RealtimeSession] = [:]
    var listens: [ObjectIdentifier: [UInt64: RealtimeListen]] = [:]
    let webSocketParsers: WebSocketParsers
    /// What polling sessions have sent in part.
    var polling: [String: LongPollSegments] = [:]
    /// Whose realtime writes are under way.
    var realtimeWrites: [UInt64: String] = [:]
    /// What is to be done after a write, of clients that are gone.
    var endings: [UInt64: () -> Void] = [:]
    var nextListen: UInt64 = 0
    var nextWrite: UInt64 = 0
    private(set) var realtimeSink: RealtimeSink?
    /// The `Host` of the last program that was let in. The next one calls the gateway by the same name, most likely.
    var programsHost: [UInt8] = []
    /// When credentials of what is open here have to be looked at again.
    var identityWatch = IdentityWatch()
    private(set) var link: LoopLink?
    private(set) var isDraining = false
    var isSweeping = false
    /// Sessions that have ended, with those of their listens that are not forgotten yet.
    var ending: [String: (session: RealtimeSession, listens: [RealtimeListen])] = [:]

    init(_ gateway: Gateway, _ loop: EventLoop) {
        self.gateway = gateway
        self.loop = loop
        webSocketParsers = WebSocketParsers(maxMessageBytes: gateway.settings.maxMessageBytes)
        let link = LoopLink(loop: loop, self)
        self.link = link
        realtimeSink = RealtimeSink(link)
        scheduleKeepAlive()
        scheduleSweep()
        watchSessions()
    }

    /// Only administrators send large bodies: restores and bulk loads. Who has to be asked about elsewhere first counts as
    /// no administrator here.
    func allowsLargeBody(_ head: HTTPRequest) -> Bool {
        guard let parameters = try? RESTParameters.settings(head.query),
            let name = try? NamespaceName.find(head, parameters, gateway.settings)
        else { return false }
        let credentials = Authenticator.Credentials(
            credential: ShownCredential.find(parameters, authorization: head.headerText("authorization")),
            namespace: name, isLoopback: isFromLoopback(head))
        guard case .now(.success(let identity)) = gateway.authenticator.authenticate(credentials) else { return false }
        return identity.context.isAdmin
    }

    func sender(of head: HTTPRequest) -> IPAddress { clientAddress(of: head) }

    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
        guard admits(request, exchange) else { return }
        do throws(RESTError) {
            try route(request, exchange)
        } catch {
            respond(error, to: exchange)
        }
    }

    private func route(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        if request.method == .options { return respondToPreflight(request, exchange) }
        let path = request.path
        if path.count > 2, path[path.startIndex + 1] == UInt8(ascii: "."), !path.elementsEqual("/.json".utf8),
            !path.elementsEqual("/.priority.json".utf8)
        {
            return try operations(request, exchange)
        }
        let place = try RequestPath.parse(path)
        let parameters = try RESTParameters(request.query)
        let method = try Call.Method(request, parameters)
        let name = try NamespaceName.find(request, parameters, gateway.settings)
        try withIdentity(request, parameters, namespace: name, exchange) { loop, identity, exchange in
            guard loop.admits(loop.gateway.limiter.request(by: identity, in: name), exchange) else { return }
            loop.begin(
                Call(
                    request: request, exchange: exchange, method: method, path: place, parameters: parameters,
                    identity: identity, namespaceName: name, address: loop.clientAddress(of: request)))
        }
    }

    // MARK: The steps before a request's own work

    /// Waits until the namespace is there, and then until the gateway has applied the seq that the client has seen.
    func begin(_ call: Call) {
        if let namespace = gateway.engine.liveNamespace(call.namespaceName) {
            return reached(namespace, call)
        }
        suspend(call)
        guard let link else { return }
        let id = call.exchange.id
        gateway.engine.withNamespace(call.namespaceName) { result in
            link.post { loop in
                guard let call = loop.resume(id) else { return }
                switch result {
                case .success(let namespace): loop.reached(namespace, call)
                case .failure(let error): loop.respond(error, to: call.exchange)
                }
            }
        }
    }

    private func reached(_ namespace: LiveNamespace, _ call: Call) {
        guard let text = call.request.headerText("x-pathmirror-min-seq") else { return perform(call, namespace) }
        guard let seq = Int64(text), seq >= 0 else {
            return respond(RESTError(400, "X-Pathmirror-Min-Seq must be a seq: a whole number"), to: call.exchange)
        }
        let snapshot = namespace.snapshot
        if snapshot.seq >= seq { return perform(call, namespace) }
        // Nobody waits, or learns how far the log is, whom the rules refuse whatever there may be.
        guard mayBeAnswered(call, snapshot) else { return respond(.permissionDenied, to: call.exchange) }
        suspend(call)
        guard let link else { return }
        let id = call.exchange.id
        call.timer = loop.schedule(afterMilliseconds: gateway.settings.minSeqWaitMilliseconds) { [weak self] in
            guard let self, let call = self.resume(id) else { return }
            self.respond(
                RESTError(503, "This gateway has not applied seq \(seq) yet"), to: call.exchange, retryAfter: 1)
        }
        namespace.whenApplied(seq, within: Int64(gateway.settings.minSeqWaitMilliseconds)) {
            link.post { loop in
                guard let call = loop.resume(id) else { return }
                loop.perform(call, namespace)
            }
        }
    }

    private func mayBeAnswered(_ call: Call, _ snapshot: Snapshot) -> Bool {
        let rules = snapshot.rules.set
        let now = Clock.unixMilliseconds
        return switch call.method {
        case .get: rules.mayEverRead(call.path, query: .overREST(call.parameters.query), auth: call.auth, now: now)
        case .put, .delete: rules.refusal(of: call.path, .path, auth: call.auth, now: now) == nil
        case .post, .patch: rules.refusal(of: call.path, .pathAndBelow, auth: call.auth, now: now) == nil
        }
    }

    private func perform(_ call: Call, _ namespace: LiveNamespace) {
        call.namespace = namespace
        switch call.method {
        case .get where call.wantsStream: openStream(call, namespace)
        case .get: read(call, namespace)
        case .put, .post, .patch, .delete: write(call, namespace)
        }
    }

    // MARK: Waiting

    /// Keeps the request until `resume`; forgets it when the client goes away.
    func suspend(_ call: Call) {
        let id = call.exchange.id
        calls[id] = call
        call.exchange.onClose = { [weak self] in _ = self?.resume(id) }
    }

    /// The waiting request, which then waits no more; nil when its client is gone.
    func resume(_ id: UInt64) -> Call? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        call.timer?.cancel()
        call.timer = nil
        return call
    }

    // MARK: Turns

    /// Does something with each of many, as many in one turn of the loop as there is time for, and then `completion`.
    func inSlices<Item: Sendable>(
        _ items: [Item], from start: Int = 0, _ body: @escaping @Sendable (GatewayLoop, Item) -> Void,
        then completion: @escaping @Sendable (GatewayLoop) -> Void = { _ in }
    ) {
        for index in start..<items.count {
            body(self, items[index])
            if loop.isSliceOver, let link {
                return link.post { $0.inSlices(items, from: index + 1, body, then: completion) }
            }
        }
        completion(self)
    }

    // MARK: Life

    private func scheduleKeepAlive() {
        _ = loop.schedule(afterMilliseconds: gateway.settings.streamKeepAliveMilliseconds) { [weak self] in
            guard let self else { return }
            self.sendKeepAlives()
            self.scheduleKeepAlive()
        }
    }

    private func scheduleSweep() {
        _ = loop.schedule(afterMilliseconds: 1_000) { [weak self] in
            guard let self else { return }
            self.sweepSessions()
            self.scheduleSweep()
        }
    }

    /// Clients of streams are to reconnect, elsewhere: a closed stream says so (reference: rtdb-protocol 1.4).
    func loopWillDrain() {
        isDraining = true
        for group in streams.values {
            for stream in group.values { stream.exchange.close() }
        }
        closeSessions()
    }

    func loopWillStop() { link = nil }
}

/// Reaches a `GatewayLoop` from other threads.
///
/// @unchecked Sendable is safe: the handler is only touched in work that runs on its own loop.
final class LoopLink: @unchecked Sendable {
    let loop: EventLoop
    private weak let handler: GatewayLoop?

    init(loop: EventLoop, _ handler: GatewayLoop) {
        self.loop = loop
        self.handler = handler
    }

    /// Does `work` on the loop, in the order of posting. Any thread.
    func post(_ work: @escaping @Sendable (GatewayLoop) -> Void) {
        loop.post { [self] in
            if let handler { work(handler) }
        }
    }
}
