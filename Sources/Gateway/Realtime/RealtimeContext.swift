import Engine
import HTTPServer
import Placement
import Runtime

/// What realtime sessions need of the gateway. Shared by all loops.
final class RealtimeContext: Sendable {
    let databases: Databases
    let settings: GatewaySettings
    let metrics: GatewayMetrics
    let groups: ListenerGroups
    /// Where each session lives.
    let directory = SessionDirectory()
    let transactionQueues = TransactionQueues()
    let authenticator: Authenticator
    let limiter: RateLimiter
    let memory: MemoryBudget
    /// Threads for what takes too long for a loop.
    let workers: WorkerPool
    let logger: Logger
    let longMessages: LongMessageLog

    init(
        _ databases: Databases, _ settings: GatewaySettings, _ metrics: GatewayMetrics, _ groups: ListenerGroups,
        _ authenticator: Authenticator, _ limiter: RateLimiter, _ workers: WorkerPool, _ logger: Logger
    ) {
        self.databases = databases
        self.settings = settings
        self.metrics = metrics
        self.groups = groups
        self.authenticator = authenticator
        self.limiter = limiter
        memory = settings.memory
        self.workers = workers
        self.logger = logger
        longMessages = LongMessageLog(logger, limit: settings.maxMessageBytes)
    }
}
