import Synchronization

/// The counters of one loop. Written by the loop's thread only (plain load and store), read by any thread.
final class LoopCounters: Sendable {
    let accepted = Atomic<Int>(0)
    let active = Atomic<Int>(0)
    let requests = Atomic<Int>(0)
    let bytesIn = Atomic<Int>(0)
    let bytesOut = Atomic<Int>(0)
    let parseErrors = Atomic<Int>(0)
    let timeouts = Atomic<Int>(0)
    let rejected = Atomic<Int>(0)
    let overAddressLimit = Atomic<Int>(0)
    let handshakes = Atomic<Int>(0)
    let resumedHandshakes = Atomic<Int>(0)
    let failedHandshakes = Atomic<Int>(0)
}

extension Atomic where Value == Int {
    /// Adds without a locked instruction; only the thread that writes this counter may call it.
    @inline(__always)
    func bump(_ amount: Int = 1) {
        store(load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }
}

/// The counters of a server, summed over its loops. A snapshot: fields may be a moment apart.
public struct HTTPServerStatistics: Sendable, Equatable {
    /// Connections accepted since the start, including rejected ones.
    public var accepted = 0
    /// Connections open now.
    public var activeConnections = 0
    /// Requests passed to handlers.
    public var requests = 0
    /// Bytes received from and sent to peers.
    public var bytesIn = 0
    public var bytesOut = 0
    /// Requests refused as malformed or over a limit (400, 413, 414, 417, 431, 501, 505).
    public var parseErrors = 0
    /// Connections ended by a deadline: slow headers or body, idle, unread output.
    public var timeouts = 0
    /// Connections refused over `maxConnections` or for lack of descriptors, and requests refused over the memory
    /// budget.
    public var rejected = 0
    /// Connections refused over `maxConnectionsPerAddress`.
    public var overAddressLimit = 0
    /// Completed TLS handshakes, those of them that resumed an earlier session, and failed handshakes. Peers that spoke
    /// plain HTTP count as failed; handshakes that took too long count as `timeouts`.
    public var handshakes = 0
    public var resumedHandshakes = 0
    public var failedHandshakes = 0

    public init() {}

    mutating func add(_ counters: LoopCounters) {
        accepted += counters.accepted.load(ordering: .relaxed)
        activeConnections += counters.active.load(ordering: .relaxed)
        requests += counters.requests.load(ordering: .relaxed)
        bytesIn += counters.bytesIn.load(ordering: .relaxed)
        bytesOut += counters.bytesOut.load(ordering: .relaxed)
        parseErrors += counters.parseErrors.load(ordering: .relaxed)
        timeouts += counters.timeouts.load(ordering: .relaxed)
        rejected += counters.rejected.load(ordering: .relaxed)
        overAddressLimit += counters.overAddressLimit.load(ordering: .relaxed)
        handshakes += counters.handshakes.load(ordering: .relaxed)
        resumedHandshakes += counters.resumedHandshakes.load(ordering: .relaxed)
        failedHandshakes += counters.failedHandshakes.load(ordering: .relaxed)
    }
}
