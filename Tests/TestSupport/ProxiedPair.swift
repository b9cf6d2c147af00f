import Glibc
import Runtime
import Synchronization

/// One client's connection through the proxy, with a forwarding thread for each direction.
final class ProxiedPair: Sendable {
    let client: Int32
    private let server: Int32
    private let proxy: CuttingProxy
    private struct State {
        /// The number of running pumps.
        var pumps = 2
        /// The bytes that identified the last affected message.
        var seen: [UInt8] = []
        /// Whether the proxy has taken over the server's end.
        var isHeld = false
        /// Whether data was lost. Then no more data is forwarded.
        var hasLost = false
        /// Whether the descriptors are closed and may belong to other sockets.
        var isClosed = false
    }
    private let state = Mutex(State())

    init(client: Int32, server: Int32, _ proxy: CuttingProxy) {
        self.client = client
        self.server = server
        self.proxy = proxy
    }

    func shutDown() {
        state.withLock { state in
            guard !state.isClosed else { return }
            shutdown(client, Int32(SHUT_RDWR))
            if !state.isHeld { shutdown(server, Int32(SHUT_RDWR)) }
        }
    }

    func pumpToServer() {
        defer { ended() }
        var allowed: Int?
        while var bytes = UnixSocket.receive(from: client) {
            if loses() { continue }
            proxy.messageComes(bytes)
            if allowed == nil, bytes.contains(proxy.sign) {
                let sign = proxy.sign
                state.withLock { $0.seen = sign }
                switch proxy.takeCutAtBatch() {
                case .beforeBatchArrives: return
                case .insideBatch(let most): allowed = min(most, Self.lengthBeforeCommit(bytes, after: sign))
                case .silenceInsideBatch(let most):
                    let count = min(most, Self.lengthBeforeCommit(bytes, after: sign))
                    state.withLock { $0.isHeld = true }
                    _ = UnixSocket.send(bytes.prefix(count), to: server)
                    proxy.hold(Array(bytes.dropFirst(count)), for: server)
                    return
                case .batchArrivesLate:
                    state.withLock { $0.isHeld = true }
                    proxy.hold(bytes, for: server)
                    return
                case .silenceFromBatch:
                    proxy.setSwallowing(true)
                    _ = loses()
                    continue
                case .beforeCommitAnswer, nil: break
                }
            }
            if let count = allowed {
                bytes = Array(bytes.prefix(count))
                allowed = count - bytes.count
            }
            guard UnixSocket.send(bytes[...], to: server) else { return }
            if allowed == 0 { return }
        }
    }

    /// Returns the number of bytes of an incomplete batch that may be forwarded: everything before the commit message,
    /// which the server executes on arrival, before the sync after it.
    private static func lengthBeforeCommit(_ bytes: [UInt8], after sign: [UInt8]) -> Int {
        guard let start = bytes.firstIndex(of: sign) else { return bytes.count - 1 }
        return bytes[start...].firstIndex(of: Array("commit#".utf8)) ?? bytes.count - 1
    }

    func pumpToClient() {
        defer { ended() }
        let sign = Array("COMMIT\0".utf8)
        while !state.withLock({ $0.isHeld }), let bytes = UnixSocket.receive(from: server) {
            if loses() { continue }
            // Only for the bytes that are affected now, not those at the message's arrival.
            if bytes.contains(sign), state.withLock({ $0.seen }) == proxy.sign, proxy.takeCutAtAnswer() { return }
            guard UnixSocket.send(bytes[...], to: client) else { return }
        }
    }

    private func loses() -> Bool {
        let isSwallowing = proxy.isSwallowing
        let (hasLost, isNews) = state.withLock { state -> (Bool, Bool) in
            defer { state.hasLost = state.hasLost || isSwallowing }
            return (state.hasLost || isSwallowing, isSwallowing && !state.hasLost)
        }
        if isNews { proxy.noteLoss() }
        return hasLost
    }

    /// Ends the other pump when one has ended.
    private func ended() {
        shutDown()
        let isLast = state.withLock { state -> Bool in
            state.pumps -= 1
            guard state.pumps == 0 else { return false }
            state.isClosed = true
            return true
        }
        guard isLast else { return }
        let isHeld = state.withLock { $0.isHeld }
        proxy.ended(self)
        close(client)
        if !isHeld { close(server) }
    }
}

extension Collection<UInt8> where Index == Int {
    /// Whether these bytes contain the other bytes.
    func contains(_ other: [UInt8]) -> Bool { firstIndex(of: other) != nil }

    /// Returns the first index of the other bytes.
    func firstIndex(of other: [UInt8]) -> Int? {
        guard count >= other.count, let first = other.first else { return nil }
        return (startIndex...(endIndex - other.count)).first { start in
            self[start] == first && self[start..<(start + other.count)].elementsEqual(other)
        }
    }
}
