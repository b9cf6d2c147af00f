import Glibc
import Runtime
import Synchronization

/// One client's connection through the proxy: two threads that pass on what comes.
final class ProxiedPair: Sendable {
    let client: Int32
    private let server: Int32
    private let proxy: CuttingProxy
    private struct State {
        /// Pumps that have not ended.
        var pumps = 2
        /// The sign that stood in what came last of what was meant.
        var seen: [UInt8] = []
        /// The server's end was taken over by the proxy.
        var isHeld = false
        /// Something was lost: nothing more gets through.
        var hasLost = false
        /// The numbers of the sockets may be others' by now.
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
                case .insideBatch(let most): allowed = min(most, Self.lengthBeforeCommit(bytes, behind: sign))
                case .silenceInsideBatch(let most):
                    let count = min(most, Self.lengthBeforeCommit(bytes, behind: sign))
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

    /// The most of a batch that may be passed on where something of it is to be missing: up to the message that commits it, which is
    /// done when it comes, before the sync behind it.
    private static func lengthBeforeCommit(_ bytes: [UInt8], behind sign: [UInt8]) -> Int {
        guard let start = bytes.firstIndex(of: sign) else { return bytes.count - 1 }
        return bytes[start...].firstIndex(of: Array("commit#".utf8)) ?? bytes.count - 1
    }

    func pumpToClient() {
        defer { ended() }
        let sign = Array("COMMIT\0".utf8)
        while !state.withLock({ $0.isHeld }), let bytes = UnixSocket.receive(from: server) {
            if loses() { continue }
            // Of what is meant now, not of what was when it came.
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

    /// One pump has ended: so must the other.
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
    /// Whether the other bytes stand somewhere in these.
    func contains(_ other: [UInt8]) -> Bool { firstIndex(of: other) != nil }

    /// Where the other bytes stand for the first time.
    func firstIndex(of other: [UInt8]) -> Int? {
        guard count >= other.count, let first = other.first else { return nil }
        return (startIndex...(endIndex - other.count)).first { start in
            self[start] == first && self[start..<(start + other.count)].elementsEqual(other)
        }
    }
}
