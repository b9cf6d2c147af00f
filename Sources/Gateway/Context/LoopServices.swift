import HTTPServer
import Runtime

/// What the handlers of one event loop have in common.
struct LoopServices {
    let loop: EventLoop
    let settings: GatewaySettings
    let metrics: GatewayMetrics
    /// Threads for what takes too long for a loop.
    let workers: WorkerPool
    let responder: Responder
}
