import Engine
import HTTPServer

/// What metrics and readiness are made of.
struct GatewayFacts: Sendable {
    let engine: Engine
    let metrics: GatewayMetrics
    let limiter: RateLimiter
    let memory: MemoryBudget
    /// See `GatewaySettings.maxReadyLag`.
    let maxReadyLag: Int64
    /// The server's own counts, as they are when it is called.
    let serverReport: @Sendable () -> ServerReport
}
