import Engine
import HTTPServer
import Rules
import Runtime
import Wire

/// Serves requests for data: performs the steps common to all, and then passes them to reads, writes or streams. One
/// for each loop.
final class RESTHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let namespaces: NamespaceWaits
    private let reads: RESTReads
    private let writes: RESTWrites
    private let streams: StreamHub
    private let calls = WaitingCalls()
    private let link: LoopLink<RESTHandler>

    init(
        _ services: LoopServices, _ callers: CallerResolver, _ namespaces: NamespaceWaits, _ reads: RESTReads,
        _ writes: RESTWrites, _ streams: StreamHub
    ) {
        self.services = services
        self.callers = callers
        self.namespaces = namespaces
        self.reads = reads
        self.writes = writes
        self.streams = streams
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// Serves a request for a data path.
    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        let path = try RequestPath.parse(request.path)
        let parameters = try RESTParameters(request.query)
        let method = try Call.Method(request, parameters)
        let name = try NamespaceName.find(request, parameters, services.settings)
        try callers.withIdentity(request, parameters, namespace: name, exchange) { [self] identity in
            guard callers.admits(identity, in: name, exchange) else { return }
            begin(
                Call(
                    request: request, exchange: exchange, method: method, path: path, parameters: parameters,
                    identity: identity, namespaceName: name, address: callers.clientAddress(of: request)))
        }
    }

    // MARK: The common steps of requests

    /// Waits until the namespace is loaded, and then until the gateway has applied the seq that the client has seen.
    private func begin(_ call: Call) {
        if let namespace = namespaces.loaded(call.namespaceName) { return reached(namespace, call) }
        if call.auth.isAdmin {
            return namespaces.whenLoaded(call.namespaceName, call.exchange) { [self] namespace in
                afterWait(call) { reached(namespace, call) }
            }
        }
        let outline = RequestOutline(call, pushedName: call.method == .post ? writes.nextPushID() : nil)
        let isRefused = { @Sendable (rules: RulesVersion) in !outline.mayBeAnswered(by: rules.set) }
        namespaces.whenLoaded(call.namespaceName, call.exchange, unless: isRefused) { [self] namespace in
            if let namespace { afterWait(call) { reached(namespace, call) } } else { refused(call) }
        }
    }

    /// Answers a request that the rules refuse regardless of the stored data, exactly as with a loaded namespace.
    private func refused(_ call: Call) {
        if let text = call.request.headerText("x-pathmirror-min-seq"), Self.seq(text) == nil {
            return refuse(call, Self.wrongSeq)
        }
        switch call.method {
        case .get: refuse(call, .permissionDenied)
        case .put, .post, .patch, .delete: writes.refuse(call)
        }
    }

    private static let wrongSeq = RESTError(400, "X-Pathmirror-Min-Seq must be a seq: a whole number")

    /// Parses the seq that a client requires; returns nil for invalid text.
    private static func seq(_ text: String) -> Int64? { Int64(text).flatMap { $0 >= 0 ? $0 : nil } }

    private func reached(_ namespace: LiveNamespace, _ call: Call) {
        guard let text = call.request.headerText("x-pathmirror-min-seq") else { return perform(call, namespace) }
        guard let seq = Self.seq(text) else { return refuse(call, Self.wrongSeq) }
        let snapshot = namespace.snapshot
        if snapshot.seq >= seq { return perform(call, namespace) }
        // A caller that the rules refuse regardless of the data must not wait, or learn the length of the log.
        guard RequestOutline(call).mayBeAnswered(by: snapshot.rules.set) else { return refuse(call, .permissionDenied) }
        wait(call, for: seq, in: namespace)
    }

    private func wait(_ call: Call, for seq: Int64, in namespace: LiveNamespace) {
        calls.suspend(call)
        let id = call.exchange.id
        let milliseconds = services.settings.minSeqWaitMilliseconds
        call.timer = services.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
            guard let self, let call = self.calls.resume(id) else { return }
            self.services.responder.respond(
                RESTError(503, "This gateway has not applied seq \(seq) yet"), to: call.exchange, retryAfter: 1)
        }
        namespace.whenApplied(seq, within: Int64(milliseconds)) { [link] in
            link.post { handler in
                guard let call = handler.calls.resume(id) else { return }
                handler.afterWait(call) { handler.perform(call, namespace) }
            }
        }
    }

    /// Continues a request that has waited, unless its credential has become invalid.
    private func afterWait(_ call: Call, _ body: () -> Void) {
        guard callers.isStillValid(call.identity) else { return refuse(call, AuthFailure.expired.restError) }
        body()
    }

    private func perform(_ call: Call, _ namespace: LiveNamespace) {
        call.namespace = namespace
        switch call.method {
        case .get where call.wantsStream: openStream(call, namespace)
        case .get: reads.read(call, namespace)
        case .put, .post, .patch, .delete: writes.write(call, namespace)
        }
    }

    private func openStream(_ call: Call, _ namespace: LiveNamespace) {
        if let refusal = ReadPermission.refusal(of: call, namespace.snapshot) { return refuse(call, refusal) }
        if call.parameters.isShallow || call.parameters.callback != nil {
            return refuse(call, RESTError(400, "shallow and callback are not supported on streams"))
        }
        streams.open(
            StreamRequest(
                path: call.path, query: call.parameters.query, form: call.parameters.form, identity: call.identity,
                hasIDs: call.wantsEventIDs, lastEventID: call.request.headerText("last-event-id")), namespace,
            call.exchange)
    }

    /// Refuses a request before it is read or written, and counts it as a read or write.
    private func refuse(_ call: Call, _ error: RESTError) {
        switch call.method {
        case .get where call.wantsStream: break
        case .get: services.metrics.reads.add()
        case .put, .post, .patch, .delete: services.metrics.writes.add()
        }
        services.refuse(call.exchange, in: call.namespaceName, error)
    }
}
