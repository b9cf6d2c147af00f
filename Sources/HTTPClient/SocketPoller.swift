internal import CEpoll
internal import Glibc

/// The sockets that one thread waits for, and a way for other threads to wake it.
///
/// `wake` may be called from any thread; everything else belongs to the thread that waits.
final class SocketPoller: Sendable {
    struct Ready {
        let socket: Int32
        let canRead: Bool
        let canWrite: Bool
        let isBroken: Bool
    }

    private let descriptor: Int32
    private let waker: Int32
    private static let mostEvents = 256

    /// Nil if the system has no more descriptors.
    init?() {
        descriptor = pathmirror_epoll()
        waker = pathmirror_epoll_wake()
        guard descriptor >= 0, waker >= 0,
            pathmirror_epoll_set(descriptor, EPOLL_CTL_ADD, waker, UInt64(waker), 1, 0) == 0
        else {
            if descriptor >= 0 { close(descriptor) }
            if waker >= 0 { close(waker) }
            return nil
        }
    }

    deinit {
        close(descriptor)
        close(waker)
    }

    /// Sets what a socket is waited for.
    func watch(_ socket: Int32, read: Bool, write: Bool) {
        let (id, read, write) = (UInt64(socket), Int32(read ? 1 : 0), Int32(write ? 1 : 0))
        // The system forgets a socket when it is closed, and its number comes again.
        if pathmirror_epoll_set(descriptor, EPOLL_CTL_MOD, socket, id, read, write) != 0 {
            _ = pathmirror_epoll_set(descriptor, EPOLL_CTL_ADD, socket, id, read, write)
        }
    }

    func forget(_ socket: Int32) { _ = pathmirror_epoll_set(descriptor, EPOLL_CTL_DEL, socket, 0, 0, 0) }

    /// Ends a `wait`, or the next one.
    func wake() {
        var one: UInt64 = 1
        _ = write(waker, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until a socket is ready, `wake` is called, or the time is over.
    func wait(milliseconds: Int32) -> [Ready] {
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.mostEvents) { events in
            let count = epoll_wait(descriptor, events.baseAddress, Int32(Self.mostEvents), milliseconds)
            guard count > 0, let first = events.baseAddress else { return [] }
            var ready: [Ready] = []
            ready.reserveCapacity(Int(count))
            for index in 0..<Int(count) {
                let event = first.advanced(by: index)
                let socket = Int32(truncatingIfNeeded: pathmirror_epoll_id(event))
                guard socket != waker else {
                    var wakes: UInt64 = 0
                    _ = read(waker, &wakes, MemoryLayout<UInt64>.size)
                    continue
                }
                ready.append(
                    Ready(
                        socket: socket, canRead: pathmirror_epoll_can_read(event) != 0,
                        canWrite: pathmirror_epoll_can_write(event) != 0,
                        isBroken: pathmirror_epoll_is_broken(event) != 0))
            }
            return ready
        }
    }
}
