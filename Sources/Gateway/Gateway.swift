public import Engine
public import Feeds
public import HTTPClient
public import HTTPServer
public import Runtime

/// The gateway's transports: what a server calls with requests. Shared by all event loops.
public final class Gateway: Sendable {
    /// What callers can prove who they are with.
    public typealias Credentials = GatewayCredentials

    public let engine: Engine
    public let metrics = GatewayMetrics()
    let settings: GatewaySettings
    let authenticator: Authenticator
    let limiter: RateLimiter
    let workers: WorkerPool
    let groups = ListenerGroups()
    let realtime: RealtimeContext
    let refusedPages = RefusedPages()
    let pushIDs = PushIDs()
    let logger: Logger
    let facts: GatewayFacts
    let feedBasePath: FeedBasePath
    let feeds: FeedGate?

    /// The feeds, and what passes their requests on to other gateways.
    public struct FeedGate: Sendable {
        let service: FeedService
        let client: HTTPClient

        public init(_ service: FeedService, client: HTTPClient) {
            self.service = service
            self.client = client
        }
    }

    /// - Parameters:
    ///   - serverReport: the server's own counts, for the metrics.
    ///   - feedBasePath: what of the log feeds' tokens are good for.
    public init(
        engine: Engine, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        feeds: FeedGate? = nil, logger: Logger,
        serverReport: @escaping @Sendable () -> ServerReport = { ServerReport() },
        feedBasePath: @escaping FeedBasePath = { _, _, completion in completion(.success(nil)) }
    ) {
        self.feedBasePath = feedBasePath
        self.engine = engine
        self.settings = settings
        self.logger = logger
        self.feeds = feeds
        let keySet = credentials.idTokens.map { KeySet($0, logger: logger) }
        keySet?.prepare()
        authenticator = Authenticator(credentials, keySet: keySet)
        limiter = RateLimiter(settings.limits)
        workers = WorkerPool(name: "worker", threads: settings.workers)
        realtime = RealtimeContext(engine, settings, metrics, groups, authenticator, limiter, workers, logger)
        facts = GatewayFacts(
            engine: engine, metrics: metrics, limiter: limiter, memory: settings.memory,
            maxReadyLag: settings.maxReadyLag, serverReport: serverReport)
        closeSessionsWhenLeaseExpires()
        followPeers()
    }

    /// When the gateway's lease has expired, other gateways have executed what the sessions here wanted done at their ends:
    /// the clients are to come back, and to say it anew.
    private func closeSessionsWhenLeaseExpires() {
        engine.leases.onExpired { [directory = realtime.directory, logger] in
            logger.warning(
                "what realtime sessions want done is not this gateway's any more (others took it for dead, or the database has lost entries); closing them all"
            )
            directory.closeAll()
        }
    }

    /// Has other gateways' clients take part in the queues of transactions here, and what they have used of their rates count.
    private func followPeers() {
        let directory = realtime.directory
        let queues = realtime.transactionQueues
        let hasQueues = settings.transactionSlotMilliseconds > 0
        engine.onPeerMessage { [limiter] sender, text in
            if let notice = UseNotice(text) { return limiter.heard(notice) }
            guard hasQueues else { return }
            // Without sessions here nobody contends with the other gateway's.
            guard let notice = SlotNotice(text), let home = directory.anyHome else { return }
            home.follow(queues.noticed(notice, from: sender), at: notice.place)
        }
    }

    /// The handler of one event loop's requests. Called by the server, on that loop.
    public func makeHandler(_ loop: EventLoop) -> any HTTPLoopHandler {
        GatewayLoop(self, loop)
    }

    /// Makes these the secrets that hold from now on; what rests on others ends. Any thread.
    public func replaceSecrets(
        administrators: [Secret<[UInt8]>], databases: [String: [Secret<[UInt8]>]]
    ) {
        authenticator.secrets.replace(administrators: administrators, databases: databases)
    }

    /// Waits, once the server drains, until all realtime sessions have ended, so that the engine has been told what they
    /// want done; at most so long.
    public func waitForSessions(milliseconds: Milliseconds) {
        realtime.directory.waitUntilEmpty(milliseconds: milliseconds)
    }

    /// Ends the threads for heavy work. Call when the server has stopped.
    public func stop() { workers.stop() }
}
