import Glibc
import Runtime

/// A proxy between clients and a local server that simulates network faults: it refuses, cuts (also within a frame) and
/// delays connections, or loses all data silently. Must be stopped.
public final class FaultProxy: Sendable {
    struct State: Sendable {
        var isRefusing = false
        var isSilent = false
        var delayMicroseconds: UInt32 = 0
        /// The number of bytes that may still pass to clients, over all connections, before the connection that exceeds
        /// it is cut.
        var allowance: Int?
        var cuts = 0
        var accepted = 0
        var isStopping = false
        var pairs: [Int32: FaultPair] = [:]
        var threads: [Thread] = []
    }

    public let port: UInt16
    let state = Condition(State())
    private let listener: Int32
    private let target: UInt16

    /// - Parameter target: The server's port.
    public init(target: UInt16) throws {
        self.target = target
        (listener, port) = try LocalSocket.listen()
        let thread = Thread(name: "fault-proxy") { [listener, weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self, self.serve(client) else { return }
            }
        }
        state.withLock { $0.threads.append(thread) }
    }

    // MARK: Faults

    /// Ends every connection without a close frame. Returns the number of connections.
    @discardableResult
    public func cutAll() -> Int {
        let pairs = state.withLock { Array($0.pairs.values) }
        for pair in pairs { pair.shutDown() }
        return pairs.count
    }

    /// Cuts the connection whose data to its client exceeds this number of further bytes. The bytes before are
    /// forwarded, so the cut can fall anywhere in a frame. Nil removes the limit.
    public func cutAfter(bytes: Int?) { state.withLock { $0.allowance = bytes } }

    /// Ends every connection and refuses new ones. False accepts connections again.
    public func setDown(_ isDown: Bool) {
        state.withLock { $0.isRefusing = isDown }
        if isDown { cutAll() }
    }

    /// Accepts all connections and loses all data in both directions, which gives half-open connections. With false
    /// only new connections work: lost data stays lost.
    public func setSilent(_ isSilent: Bool) { state.withLock { $0.isSilent = isSilent } }

    /// Sets the delay of each piece of data, in both directions.
    public func setDelay(milliseconds: Int) {
        state.withLock { $0.delayMicroseconds = UInt32(milliseconds) * 1_000 }
    }

    /// The number of connections that `cutAfter` has cut.
    public var cutCount: Int { state.withLock { $0.cuts } }
    /// The number of accepted connections.
    public var acceptedCount: Int { state.withLock { $0.accepted } }
    public var openCount: Int { state.withLock { $0.pairs.count } }

    /// Stops the proxy.
    public func stop() {
        state.withLock { $0.isStopping = true }
        cutAll()
        shutdown(listener, Int32(SHUT_RDWR))
        while true {
            let threads = state.withLock { state -> [Thread] in
                defer { state.threads = [] }
                return state.threads
            }
            if threads.isEmpty { break }
            for thread in threads { thread.join() }
        }
        close(listener)
    }

    // MARK: Connections

    /// Accepts a client. Returns false if the proxy is stopping.
    private func serve(_ client: Int32) -> Bool {
        let (isStopping, isRefusing) = state.withLock { ($0.isStopping, $0.isRefusing) }
        guard !isStopping, !isRefusing, let server = try? LocalSocket.connect(port: target) else {
            LocalSocket.reset(client)
            return !isStopping
        }
        LocalSocket.setNoDelay(client)
        let pair = FaultPair(client: client, server: server, self)
        let isTaken = state.withLock { state -> Bool in
            guard !state.isStopping, !state.isRefusing else { return false }
            state.accepted += 1
            state.pairs[client] = pair
            // Threads of ended connections are joined now and then.
            state.threads.append(Thread(name: "fault-up") { pair.pump(from: client, to: server, toClient: false) })
            state.threads.append(Thread(name: "fault-down") { pair.pump(from: server, to: client, toClient: true) })
            return true
        }
        if !isTaken {
            LocalSocket.reset(client)
            close(server)
        }
        return true
    }

    func ended(_ pair: FaultPair) { state.withLock { $0.pairs[pair.client] = nil } }

    /// Returns the number of bytes of a piece that may pass to a client. If it is less than `count`, the connection is
    /// cut there.
    func passing(_ count: Int) -> Int {
        state.withLock { state in
            guard let allowance = state.allowance else { return count }
            if count <= allowance {
                state.allowance = allowance - count
                return count
            }
            state.allowance = nil
            state.cuts += 1
            return allowance
        }
    }
}
