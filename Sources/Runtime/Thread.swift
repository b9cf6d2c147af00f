internal import Glibc
internal import Synchronization

/// A thread of its own for blocking work, which must not run on the cooperative pool, because that has one thread per
/// core.
public final class Thread: Sendable {
    private struct State {
        var handle: pthread_t?
        var errorNumber: Int32?
        var isJoined = false
    }
    private let state = Mutex(State())

    /// Starts `body` on a new thread at once. If the system cannot create a thread, the process writes one line and
    /// exits: without the thread it would answer some requests and leave others waiting forever.
    ///
    /// - Parameters:
    ///   - name: the system's tools show at most 15 bytes.
    ///   - isVital: false if the caller checks `isStarted` and can continue without the thread.
    ///   - blocksSignals: true if no signal may interrupt the thread's waits. Signals that a thread causes itself are
    ///     not blocked: if blocked, they would end the process without showing where.
    public init(
        name: String, isVital: Bool = true, blocksSignals: Bool = false, _ body: @escaping @Sendable () -> Void
    ) {
        let start = Start(name: name, body: body)
        let made = blocksSignals ? Self.withSignalsBlocked { Self.create(start) } : Self.create(start)
        if made.handle == nil, isVital { Self.endProcess(withoutThread: name) }
        state.withLock { state in
            state.handle = made.handle
            state.errorNumber = made.errorNumber
        }
    }

    private static func endProcess(withoutThread name: String) -> Never {
        var text =
            "pathmirror: out of memory or threads: the thread \"\(name)\" could not be created. Raise the limits (ulimit -v and "
            + "-u, the container's limits).\n"
        text.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
        _exit(1)
    }

    private static func create(_ start: Start) -> (handle: pthread_t?, errorNumber: Int32?) {
        let start = Unmanaged.passRetained(start)
        var handle = pthread_t()
        let status = pthread_create(&handle, nil, threadMain, start.toOpaque())
        if status == 0 { return (handle, nil) }
        start.release()
        return (nil, status)
    }

    /// Runs `body` with all signals blocked except those that a thread causes itself. A new thread inherits the mask.
    private static func withSignalsBlocked<Result>(_ body: () -> Result) -> Result {
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        for own in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] { sigdelset(&all, own) }
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return body()
    }

    /// Sets the thread's name for the system's tools. Swift can call neither of the two functions made for it.
    fileprivate static func name(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        var name = String(name.prefix(15))
        name.withUTF8 { _ = write(file, $0.baseAddress, $0.count) }
        close(file)
    }

    /// Whether the thread was created.
    public var isStarted: Bool { state.withLock { $0.handle != nil } }

    /// The error of a failed creation; nil if the thread was created.
    public var errorNumber: Int32? { state.withLock { $0.errorNumber } }

    /// Releases the thread, which continues to run: the system frees its memory when the body has returned. The thread
    /// can no longer be joined.
    public func detach() {
        let handle = state.withLock { state -> pthread_t? in
            guard !state.isJoined else { return nil }
            state.isJoined = true
            return state.handle
        }
        if let handle { pthread_detach(handle) }
    }

    /// Waits until the body has returned. Later calls return at once.
    public func join() {
        let handle = state.withLock { state -> pthread_t? in
            guard !state.isJoined else { return nil }
            state.isJoined = true
            return state.handle
        }
        if let handle { pthread_join(handle, nil) }
    }
}

private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

private func threadMain(_ pointer: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let pointer else { return nil }
    let start = Unmanaged<Start>.fromOpaque(pointer).takeRetainedValue()
    Thread.name(start.name)
    start.body()
    return nil
}
