public import Engine
public import HTTPServer
public import Runtime

/// The gateway's doors: what a server calls with requests. Shared by all event loops.
public final class Gateway: Sendable {
    public let engine: Engine
    public let metrics = GatewayMetrics()
    let settings: GatewaySettings
    let authenticator: Authenticator
    let workers: WorkerPool
    let listeners: ListenerHub
    let sessions = RealtimeHub()
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
        workers = WorkerPool(name: "worker", threads: settings.workers)
        listeners = ListenerHub()
        self.logger = logger
        makeServerReport = serverReport
    }

    /// The handler of one event loop's requests. Called by the server, on that loop.
    public func makeHandler(_ loop: EventLoop) -> any HTTPLoopHandler {
        GatewayLoop(self, loop)
    }

    var serverReport: ServerReport { makeServerReport() }

    /// Ends the threads for heavy work. Call when the server has stopped.
    public func stop() { workers.stop() }
}

/// What the metrics tell of the server.
public struct ServerReport: Sendable {
    public var connections = 0
    public var acceptedConnections = 0
    public var requests = 0
    public var bytesIn = 0
    public var bytesOut = 0
    public var parseErrors = 0
    public var timeouts = 0
    public var rejected = 0

    public init() {}
}
