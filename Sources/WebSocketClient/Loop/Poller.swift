import CEpoll
import Glibc

/// The system's list of sockets that are waited for. Confined to its loop's thread.
final class Poller {
    struct Ready {
        let id: UInt64
        let canRead: Bool
        let canWrite: Bool
        /// The connection is broken, or the peer is gone altogether.
        let isBroken: Bool
    }

    private let descriptor: Int32
    private var events = [epoll_event](repeating: epoll_event(), count: 256)

    /// Nil where the system has no more descriptors.
    init?() {
        descriptor = pathmirror_epoll()
        guard descriptor >= 0 else { return nil }
    }

    deinit {
        close(descriptor)
    }

    /// False where the system refuses.
    func add(_ socket: Int32, id: UInt64, read: Bool, write: Bool) -> Bool {
        pathmirror_epoll_set(descriptor, EPOLL_CTL_ADD, socket, id, read ? 1 : 0, write ? 1 : 0) == 0
    }

    func change(_ socket: Int32, id: UInt64, read: Bool, write: Bool) {
        _ = pathmirror_epoll_set(descriptor, EPOLL_CTL_MOD, socket, id, read ? 1 : 0, write ? 1 : 0)
    }

    func remove(_ socket: Int32) {
        _ = pathmirror_epoll_set(descriptor, EPOLL_CTL_DEL, socket, 0, 0, 0)
    }

    /// Waits until something is ready, at most so long; -1 for ever.
    func wait(milliseconds: Int32) -> [Ready] {
        let count = epoll_wait(descriptor, &events, Int32(events.count), milliseconds)
        guard count > 0 else { return [] }
        return events.withUnsafeBufferPointer { events in
            events[..<Int(count)].indices.compactMap { index in
                guard let event = events.baseAddress?.advanced(by: index) else { return nil }
                return Ready(
                    id: pathmirror_epoll_id(event), canRead: pathmirror_epoll_can_read(event) != 0,
                    canWrite: pathmirror_epoll_can_write(event) != 0,
                    isBroken: pathmirror_epoll_is_broken(event) != 0)
            }
        }
    }
}
