public import Engine
public import HTTPServer
public import Placement
public import Runtime

/// The gateway's transports: what a server calls with requests. Shared by all event loops.
public final class Gateway: Sendable {
    /// What callers can prove who they are with.
    public typealias Credentials = GatewayCredentials

    /// The databases that it serves.
    public let databases: Databases
    public let metrics = GatewayMetrics()
    let settings: GatewaySettings
    let authenticator: Authenticator
    let limiter: RateLimiter
    let workers: WorkerPool
    let logSeats: LogSeats
    let groups = ListenerGroups()
    let realtime: RealtimeContext
    let refusedPages = RefusedPages()
    let pushIDs = PushIDs()
    let logger: Logger
    let facts: GatewayFacts
    let feedBasePath: FeedBasePath
    /// What passes requests of feeds on to other gateways; nil where this gateway has no feeds.
    let feedClients: FeedClients?
    let forwardingIdentity = ForwardingIdentity()

    /// A gateway of one database, without feeds.
    public convenience init(
        engine: Engine, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        logger: Logger, serverReport: @escaping @Sendable () -> ServerReport = { ServerReport() },
        feedBasePath: @escaping FeedBasePath = { _, _, completion in completion(.success(nil)) }
    ) {
        self.init(
            databases: Databases(home: engine), settings: settings, credentials: credentials, logger: logger,
            serverReport: serverReport, feedBasePath: feedBasePath)
    }

    /// - Parameters:
    ///   - feedClients: what passes requests of feeds on to other gateways; nil where the databases have no feeds.
    ///   - serverReport: the server's own counts, for the metrics.
    ///   - feedBasePath: what of the log feeds' tokens are good for.
    public init(
        databases: Databases, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        feedClients: FeedClients? = nil, logger: Logger,
        serverReport: @escaping @Sendable () -> ServerReport = { ServerReport() },
        feedBasePath: @escaping FeedBasePath = { _, _, completion in completion(.success(nil)) }
    ) {
        self.feedBasePath = feedBasePath
        self.databases = databases
        self.settings = settings
        self.logger = logger
        self.feedClients = feedClients
        let keySet = credentials.idTokens.map { KeySet($0, logger: logger) }
        keySet?.prepare()
        authenticator = Authenticator(credentials, keySet: keySet)
        limiter = RateLimiter(settings.limits)
        logSeats = LogSeats(settings.maxLogReadings)
        workers = WorkerPool(name: "worker", threads: settings.workers)
        realtime = RealtimeContext(databases, settings, metrics, groups, authenticator, limiter, workers, logger)
        facts = GatewayFacts(
            databases: databases, metrics: metrics, limiter: limiter, memory: settings.memory, output: settings.output,
            maxReadyLag: settings.maxReadyLag, serverReport: serverReport)
        follow(databases.home)
        databases.forEachOther { [weak self] in self?.follow($0) }
    }

    private func follow(_ database: Databases.Member) {
        closeSessionsWhenLeaseExpires(in: database)
        followPeers(of: database)
    }

    /// When the gateway's lease has expired, other gateways have executed what the sessions here wanted done at their ends:
    /// the clients are to come back, and to say it anew.
    private func closeSessionsWhenLeaseExpires(in database: Databases.Member) {
        database.engine.leases.onExpired { [directory = realtime.directory, logger] in
            logger.warning(
                "what realtime sessions want done is not this gateway's any more (others took it for dead, or the database has lost entries); closing them all"
            )
            directory.closeAll(in: database.number)
        }
    }

    /// Has other gateways' clients take part in the queues of transactions here.
    private func followPeers(of database: Databases.Member) {
        guard settings.transactionSlotMilliseconds > 0 else { return }
        let directory = realtime.directory
        let queues = realtime.transactionQueues
        database.engine.onPeerMessage { sender, text in
            // Without sessions here nobody contends with the other gateway's.
            guard let notice = SlotNotice(text, in: database.number), let home = directory.anyHome else { return }
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
