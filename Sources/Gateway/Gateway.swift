public import Engine
public import HTTPServer
public import LogStore
public import Placement
public import Runtime

/// The gateway's transports, which the HTTP server calls with requests. Shared by all event loops.
public final class Gateway: Sendable {
    /// The credentials that callers can present.
    public typealias Credentials = GatewayCredentials

    /// The databases that this gateway serves.
    public let databases: Databases
    public let metrics = GatewayMetrics()
    let settings: GatewaySettings
    let authenticator: Authenticator
    let accounts: ServiceAccountList
    let limiter: RateLimiter
    let workers: WorkerPool
    let logSeats: LogSeats
    let groups = ListenerGroups()
    let realtime: RealtimeContext
    let refusedPages = RefusedPages()
    let pushIDs = PushIDs()
    let logger: Logger
    let facts: GatewayMetricFacts
    let feedBasePath: FeedBasePath
    /// Forwards feed requests to other gateways; nil if this gateway has no feeds.
    let feedClients: FeedClients?
    let forwardingIdentity = ForwardingIdentity()

    /// Creates a gateway of one database, without feeds.
    public convenience init(
        engine: Engine, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        accounts: ServiceAccountList = ServiceAccountList(), logger: Logger,
        serverReport: @escaping @Sendable () -> ServerReport = { ServerReport() },
        feedBasePath: @escaping FeedBasePath = { _, _, completion in completion(.success(nil)) }
    ) {
        self.init(
            databases: Databases(primary: engine), settings: settings, credentials: credentials, accounts: accounts,
            logger: logger,
            serverReport: serverReport, feedBasePath: feedBasePath)
    }

    /// - Parameters:
    ///   - accounts: the service accounts, which the engine of the primary database keeps current.
    ///   - feedClients: forwards feed requests to other gateways; nil if the databases have no feeds.
    ///   - serverReport: returns the server's own counts, for the metrics.
    ///   - feedBasePath: returns the path of the log that a feed's token opens.
    public init(
        databases: Databases, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        accounts: ServiceAccountList = ServiceAccountList(), feedClients: FeedClients? = nil, logger: Logger,
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
        let authenticator = Authenticator(credentials, keySet: keySet, logger: logger)
        self.authenticator = authenticator
        self.accounts = accounts
        accounts.onNews { authenticator.secrets.replace(serviceAccounts: ServiceAccountKeys($0)) }
        limiter = RateLimiter(settings.limits)
        logSeats = LogSeats(settings.maxLogReadings)
        workers = WorkerPool(name: "worker", threads: settings.workers)
        realtime = RealtimeContext(databases, settings, metrics, groups, authenticator, limiter, workers, logger)
        facts = GatewayMetricFacts(
            databases: databases, metrics: metrics, limiter: limiter, memory: settings.memory, output: settings.output,
            maxReadyLag: settings.maxReadyLag, serverReport: serverReport)
        follow(databases.primary)
        databases.forEachOther { [weak self] in self?.follow($0) }
    }

    private func follow(_ database: Databases.Member) {
        closeSessionsWhenLeaseExpires(in: database)
        followPeers(of: database)
    }

    /// Closes all realtime sessions when the gateway's lease expires: other gateways have then executed the sessions'
    /// onDisconnect operations. The clients reconnect and register their operations again.
    private func closeSessionsWhenLeaseExpires(in database: Databases.Member) {
        database.engine.leases.onExpired { [directory = realtime.directory, logger] in
            logger.warning(
                "this gateway has lost its lease (its heartbeats stopped, or the database has lost entries): closing all realtime sessions"
            )
            directory.closeAll(in: database.number)
        }
    }

    /// Lets clients of other gateways take part in the transaction queues of this gateway.
    private func followPeers(of database: Databases.Member) {
        guard settings.transactionSlotMilliseconds > 0 else { return }
        let directory = realtime.directory
        let queues = realtime.transactionQueues
        database.engine.onPeerMessage { sender, text in
            // Without sessions, no client here contends with the other gateway's client.
            guard let notice = SlotNotice(text, in: database.number), let sessionLoop = directory.anySessionLoop else {
                return
            }
            sessionLoop.follow(queues.noticed(notice, from: sender), at: notice.key)
        }
    }

    /// Creates the handler of one event loop's requests. The server calls this on that loop.
    public func makeHandler(_ loop: EventLoop) -> any HTTPLoopHandler {
        GatewayLoop(self, loop)
    }

    /// Replaces the valid secrets. Sessions and streams that were authenticated with a removed secret end. Any thread.
    public func replaceSecrets(
        administrators: [Secret<[UInt8]>], databases: [String: [Secret<[UInt8]>]]
    ) {
        authenticator.secrets.replace(administrators: administrators, databases: databases)
    }

    /// Waits, once the server drains, until all realtime sessions have ended and have handed their onDisconnect
    /// operations to the engine, or until the timeout.
    public func waitForSessions(milliseconds: Milliseconds) {
        realtime.directory.waitUntilEmpty(milliseconds: milliseconds)
    }

    /// Ends the threads for heavy work. Call this after the server has stopped.
    public func stop() { workers.stop() }
}
