internal import CEpoll
internal import Glibc

/// The sockets that one thread waits for, and a way for other threads to wake it.
///
/// `wake` may be called from any thread. All other calls belong to the thread that waits.
public final class SocketPoller: Sendable {
    /// A socket that is ready.
    public struct Ready {
        /// The number that the socket was added with.
        public let id: UInt64
        public let canRead: Bool
        public let canWrite: Bool
        /// Whether the connection is broken, or the peer has closed it in both directions.
        public let isBroken: Bool
    }

    private let descriptor: Int32
    private let waker: Int32
    private static let mostEvents = 256
    /// The waker's number, which no socket may have.
    private static let wakerID = UInt64.max

    /// Nil if the system has no more descriptors.
    public init?() {
        descriptor = pathmirror_epoll()
        waker = pathmirror_epoll_wake()
        guard descriptor >= 0, waker >= 0,
            pathmirror_epoll_set(descriptor, EPOLL_CTL_ADD, waker, Self.wakerID, 1, 0) == 0
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

    /// Starts to wait for a socket.
    ///
    /// - Returns: False if the system refuses.
    public func add(_ socket: Int32, id: UInt64, read: Bool, write: Bool) -> Bool {
        set(EPOLL_CTL_ADD, socket, id, read, write)
    }

    /// Changes the events that a socket is polled for.
    ///
    /// - Returns: False if the socket was not added, or was closed since: the system forgets a socket when it is
    ///   closed.
    @discardableResult
    public func change(_ socket: Int32, id: UInt64, read: Bool, write: Bool) -> Bool {
        set(EPOLL_CTL_MOD, socket, id, read, write)
    }

    /// Stops waiting for a socket.
    public func remove(_ socket: Int32) { _ = set(EPOLL_CTL_DEL, socket, 0, false, false) }

    private func set(_ operation: Int32, _ socket: Int32, _ id: UInt64, _ read: Bool, _ write: Bool) -> Bool {
        pathmirror_epoll_set(descriptor, operation, socket, id, read ? 1 : 0, write ? 1 : 0) == 0
    }

    /// Ends a `wait`, or the next one.
    public func wake() {
        var one: UInt64 = 1
        // The write can only fail if the counter is full, and then the thread is about to wake.
        _ = write(waker, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until a socket is ready or `wake` is called.
    ///
    /// - Parameter milliseconds: The longest time to wait; -1 for any time.
    /// - Returns: The sockets that are ready; none if `wake` or the time ended the wait.
    public func wait(milliseconds: Int32) -> [Ready] {
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.mostEvents) { events in
            let count = epoll_wait(descriptor, events.baseAddress, Int32(Self.mostEvents), milliseconds)
            guard count > 0, let first = events.baseAddress else { return [] }
            var ready: [Ready] = []
            ready.reserveCapacity(Int(count))
            for index in 0..<Int(count) {
                let event = first.advanced(by: index)
                let id = pathmirror_epoll_id(event)
                guard id != Self.wakerID else {
                    var wakes: UInt64 = 0
                    _ = read(waker, &wakes, MemoryLayout<UInt64>.size)
                    continue
                }
                ready.append(
                    Ready(
                        id: id, canRead: pathmirror_epoll_can_read(event) != 0,
                        canWrite: pathmirror_epoll_can_write(event) != 0,
                        isBroken: pathmirror_epoll_is_broken(event) != 0))
            }
            return ready
        }
    }
}
