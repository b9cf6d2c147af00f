import Glibc
import Runtime

/// Tries a server's addresses in parallel, each a little later than the previous one, and uses the first that connects.
/// Confined to its loop's thread.
final class Dialer {
    enum Result {
        /// No address has connected yet; the next one is due at this time.
        case waiting(next: Int64?)
        case connected(Int32)
        case failed(String)
    }

    private struct Try {
        let descriptor: Int32
        let id: UInt64
    }

    private let loop: ClientLoop
    private unowned let runner: ConnectionRunner
    private var rest: ArraySlice<SocketAddress>
    private var tries: [Try] = []
    private var nextAt: Int64 = 0
    private var failure = "the name has no address"

    init(_ loop: ClientLoop, _ runner: ConnectionRunner, _ addresses: [SocketAddress]) {
        self.loop = loop
        self.runner = runner
        rest = addresses[...]
    }

    /// Tries the next address, if it is due.
    func resume(now: Int64) -> Result {
        while now >= nextAt || tries.isEmpty, let address = rest.popFirst() {
            switch address.connect(unacknowledgedTimeout: loop.settings.unacknowledgedTimeout) {
            case .success(let descriptor):
                guard let id = loop.watch(descriptor, for: runner, read: false, write: true) else {
                    close(descriptor)
                    continue
                }
                tries.append(Try(descriptor: descriptor, id: id))
                nextAt = now + loop.settings.nextAddressAfter
            case .failure(let error): failure = error.description
            }
        }
        if tries.isEmpty { return .failed(failure) }
        return .waiting(next: rest.isEmpty ? nil : nextAt)
    }

    /// Handles the result of a try, which its socket reports.
    func isReady(_ ready: SocketPoller.Ready, now: Int64) -> Result {
        guard let index = tries.firstIndex(where: { $0.id == ready.id }) else { return resume(now: now) }
        let descriptor = tries[index].descriptor
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        if getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0 { error = errno }
        loop.unwatch(descriptor, id: ready.id)
        tries.remove(at: index)
        if error == 0 {
            stop()
            return .connected(descriptor)
        }
        close(descriptor)
        failure = SystemError(number: error).description
        nextAt = now
        return resume(now: now)
    }

    /// Abandons all tries.
    func stop() {
        for attempt in tries {
            loop.unwatch(attempt.descriptor, id: attempt.id)
            close(attempt.descriptor)
        }
        tries = []
        rest = []
    }
}
