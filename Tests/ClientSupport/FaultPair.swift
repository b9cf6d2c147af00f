import Glibc
import Runtime
import Synchronization

/// One client's connection through a fault proxy, with a forwarding thread for each direction.
final class FaultPair: Sendable {
    let client: Int32
    private let server: Int32
    private let proxy: FaultProxy
    private struct State {
        /// The number of running pumps.
        var pumps = 2
        /// Whether data was lost. Then no more data is forwarded.
        var hasLost = false
        /// Whether the descriptors are closed and may belong to other sockets.
        var isClosed = false
    }
    private let state = Mutex(State())

    init(client: Int32, server: Int32, _ proxy: FaultProxy) {
        self.client = client
        self.server = server
        self.proxy = proxy
    }

    func shutDown() {
        state.withLock { state in
            guard !state.isClosed else { return }
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(server, Int32(SHUT_RDWR))
        }
    }

    func pump(from source: Int32, to destination: Int32, toClient: Bool) {
        while let bytes = LocalSocket.receive(from: source) {
            let (isSilent, delay) = proxy.state.withLock { ($0.isSilent, $0.delayMicroseconds) }
            if state.withLock({
                $0.hasLost = $0.hasLost || isSilent
                return $0.hasLost
            }) {
                continue
            }
            if delay > 0 { usleep(delay) }
            let count = toClient ? proxy.passing(bytes.count) : bytes.count
            guard LocalSocket.send(bytes.prefix(count), to: destination), count == bytes.count else { break }
        }
        ended()
    }

    private func ended() {
        let isLast = state.withLock { state -> Bool in
            state.pumps -= 1
            // After a loss, the end of one side is not forwarded, so that the connection looks open from both.
            if state.pumps == 1, !state.hasLost {
                shutdown(client, Int32(SHUT_RDWR))
                shutdown(server, Int32(SHUT_RDWR))
            }
            guard state.pumps == 0 else { return false }
            state.isClosed = true
            close(client)
            close(server)
            return true
        }
        if isLast { proxy.ended(self) }
    }
}
