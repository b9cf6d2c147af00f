public import Engine
public import HTTPServer
public import Runtime

/// The gateway's doors: what a server calls with requests. Shared by all event loops.
public final class Gateway: Sendable {
    public let engine: Engine
    public let metrics = GatewayMetrics()
    let settings: GatewaySettings
    let authenticator: Authenticator
    let limiter: RateLimiter
    let workers: WorkerPool
    let memory: MemoryBudget
    let listeners: ListenerHub
    let sessions = RealtimeHub()
    let transactionQueues = TransactionQueues()
    let refusedPages = RefusedPages()
    let logger: Logger
    let pushIDs = PushIDs()
    private let makeServerReport: @Sendable () -> ServerReport

    /// - Parameter serverReport: the server's own counts, for the metrics.
    public init(
        engine: Engine, settings: GatewaySettings = GatewaySettings(), credentials: Credentials = Credentials(),
        logger: Logger,
        serverReport: @escaping @Sendable () -> ServerReport = { ServerReport() }
    ) {
        self.engine = engine
        self.settings = settings
        let keySet = credentials.idTokens.map { KeySet($0, logger: logger) }
        keySet?.prepare()
        authenticator = Authenticator(credentials, keySet: keySet)
        limiter = RateLimiter(settings.limits)
        workers = WorkerPool(name: "worker", threads: settings.workers)
        memory = settings.memory
        listeners = ListenerHub()
        self.logger = logger
        makeServerReport = serverReport
        // Others have done what the sessions here had asked for: their clients come back, and say it anew.
        engine.sessions.onLeaseExpired { [sessions, logger] in
            logger.warning(
                "what realtime sessions want done is not this gateway's any more (others took it for dead, or the database has lost entries); closing them all"
            )
            sessions.closeAll()
        }
        guard settings.transactionSlotMilliseconds > 0 else { return }
        engine.onPeerMessage { [sessions, transactionQueues] sender, text in
            // Without sessions here nobody contends with the other gateway's.
            guard let notice = SlotNotice(text), let link = sessions.anyLink else { return }
            let outcome = transactionQueues.noticed(notice, from: sender)
            link.post { $0.follow(outcome, at: notice.place) }
        }
    }

    /// The handler of one event loop's requests. Called by the server, on that loop.
    public func makeHandler(_ loop: EventLoop) -> any HTTPLoopHandler {
        GatewayLoop(self, loop)
    }

    var serverReport: ServerReport { makeServerReport() }

    /// Waits, once the server drains, until all realtime sessions have ended, so that the engine has been told what they
    /// want done; at most so long.
    public func waitForSessions(milliseconds: Int64) {
        sessions.waitUntilEmpty(milliseconds: milliseconds)
    }

    /// Ends the threads for heavy work. Call when the server has stopped.
    public func stop() { workers.stop() }
}

/// What the metrics tell of the process around the doors.
public struct ServerReport: Sendable {
    public var server: HTTPServerStatistics
    /// Seconds since 1970; nil where nothing is served over TLS.
    public var certificateExpiresAt: Int64?
    public var mirrors: [MirrorFacts]
    /// What kept each event loop from all else.
    public var stretches: [StretchMeter]

    public init(
        server: HTTPServerStatistics = HTTPServerStatistics(), certificateExpiresAt: Int64? = nil,
        mirrors: [MirrorFacts] = [], stretches: [StretchMeter] = []
    ) {
        self.stretches = stretches
        self.server = server
        self.certificateExpiresAt = certificateExpiresAt
        self.mirrors = mirrors
    }
}
