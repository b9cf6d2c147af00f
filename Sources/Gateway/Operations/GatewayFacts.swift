import HTTPServer
import Placement

/// What metrics and readiness are made of.
struct GatewayFacts: Sendable {
    let databases: Databases
    let metrics: GatewayMetrics
    let limiter: RateLimiter
    let memory: MemoryBudget
    let output: OutputBudget
    /// See `GatewaySettings.maxReadyLag`.
    let maxReadyLag: Int64
    /// The server's own counts, as they are when it is called.
    let serverReport: @Sendable () -> ServerReport
}
