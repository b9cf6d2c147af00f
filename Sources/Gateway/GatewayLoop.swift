import Engine
import HTTPServer
import Placement
import Runtime

/// One event loop's part of the gateway: creates the handlers and hubs of the loop, and runs their timers. Belongs to
/// the loop's thread.
final class GatewayLoop: HTTPLoopHandler {
    private let loop: EventLoop
    private let settings: GatewaySettings
    private let router: Router
    private let callers: CallerResolver
    private let streams: StreamHub
    private let logs: LogHub
    private let realtime: RealtimeHub
    private let feeds: FeedsHandler?
    private let link: LoopLink<GatewayLoop>
    private var isSweeping = false

    init(_ gateway: Gateway, _ loop: EventLoop) {
        self.loop = loop
        settings = gateway.settings
        let services = LoopServices(
            loop: loop, settings: gateway.settings, metrics: gateway.metrics, workers: gateway.workers,
            responder: Responder(gateway.metrics))
        callers = CallerResolver(gateway.authenticator, gateway.limiter, gateway.logger, services)
        streams = StreamHub(services, gateway.databases, gateway.groups, gateway.authenticator)
        logs = LogHub(services, gateway.databases, gateway.authenticator, gateway.logSeats, gateway.feedBasePath)
        realtime = RealtimeHub(gateway.realtime, loop)
        let namespaces = NamespaceWaits(gateway.databases, services)
        let writes = RESTWrites(
            services, callers, gateway.pushIDs, deniedWrites: gateway.databases.primary.engine.metrics.deniedWrites)
        let callers = self.callers
        let feeds = gateway.feedClients.map {
            FeedsHandler(
                services, callers, gateway.databases, $0, gateway.forwardingIdentity, gateway.authenticator)
        }
        self.feeds = feeds
        router = Router(
            services, callers, PageGate(gateway.refusedPages, callers, gateway.logger, services),
            Router.Handlers(
                data: RESTHandler(services, callers, namespaces, RESTReads(services), writes, streams),
                operations: OperationsHandler(services, callers, gateway.facts),
                rules: RulesHandler(services, callers, namespaces),
                functions: services.settings.functionRegistry.map { FunctionTriggersHandler(services, callers, $0) },
                webSockets: WebSocketHandler(services, callers, namespaces, gateway.realtime, realtime),
                polls: LongPollHandler(services, callers, namespaces, gateway.realtime, realtime), feeds: feeds,
                log: LogHandler(services, gateway.databases, callers, namespaces, logs, gateway.feedBasePath),
                tokens: TokenHandler(services, callers, gateway.authenticator, gateway.accounts, gateway.logger)))
        link = LoopLink(loop)
        link.lead(to: self)
        scheduleKeepAlives()
        scheduleSweeps()
        scheduleIdentityChecks()
        scheduleFeedChecks()
    }

    // MARK: Requests

    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) { router.serve(request, exchange) }

    func allowsLargeBody(_ head: HTTPRequest) -> Bool { router.allowsLargeBody(head) }

    func sender(of head: HTTPRequest) -> IPAddress { feeds?.client(of: head) ?? callers.clientAddress(of: head) }

    // MARK: Time

    private func scheduleKeepAlives() {
        _ = loop.schedule(afterMilliseconds: settings.streamKeepAliveMilliseconds) { [weak self] in
            guard let self else { return }
            self.streams.sendKeepAlives()
            self.feeds?.sendKeepAlives()
            self.logs.sendKeepAlives()
            self.scheduleKeepAlives()
        }
    }

    private func scheduleSweeps() {
        _ = loop.schedule(afterMilliseconds: 1_000) { [weak self] in
            guard let self else { return }
            self.sweep()
            self.scheduleSweeps()
        }
    }

    /// Sweeps all sessions and then all streams, unless the previous sweep is still in progress.
    private func sweep() {
        guard !isSweeping else { return }
        isSweeping = true
        realtime.sweep { [link] in link.post { $0.sweepStreams() } }
    }

    private func sweepStreams() {
        streams.sweep { [link] in link.post { $0.isSweeping = false } }
    }

    /// Re-checks credentials twice a second.
    private func scheduleIdentityChecks() {
        loop.schedule(everyMilliseconds: 500) { [weak self] in
            self?.streams.endInvalidIdentities()
            self?.feeds?.endInvalidIdentities()
            self?.logs.endInvalidIdentities()
        }
    }

    /// Re-checks every two seconds whether feeds' tokens still open the same part of the log. A check costs one query
    /// for each feed whose log is being read.
    private func scheduleFeedChecks() {
        loop.schedule(everyMilliseconds: 2_000) { [weak self] in self?.logs.endLostFeeds() }
    }

    // MARK: Draining

    func loopWillDrain() {
        streams.drain()
        feeds?.drain()
        logs.drain()
        realtime.drain()
    }
}
