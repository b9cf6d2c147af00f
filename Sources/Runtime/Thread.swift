internal import Glibc
internal import Synchronization

/// A thread of its own, for work that blocks: never the cooperative pool's, which has one a core.
public final class Thread: Sendable {
    private struct State {
        var handle: pthread_t?
        var errorNumber: Int32?
        var isJoined = false
    }
    private let state = Mutex(State())

    /// Starts `body` on a new thread at once. Where the system refuses to make one, the process says so in one line and
    /// ends: without the thread it would answer some requests and leave others waiting for ever.
    ///
    /// - Parameters:
    ///   - name: at most 15 bytes are shown by the system's tools.
    ///   - isVital: false where the caller looks at `isStarted` and can do without.
    ///   - blocksSignals: true where no signal may interrupt what the thread waits in. What a thread does to itself it still
    ///     gets: blocked, it would end the process without a word of where.
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
            "pathmirror: out of memory or of threads: the system made no thread \"\(name)\". Give the program more (ulimit -v and "
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

    /// Runs `body` with all signals blocked but those that a thread causes itself. A new thread inherits the mask.
    private static func withSignalsBlocked<Result>(_ body: () -> Result) -> Result {
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        for own in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] { sigdelset(&all, own) }
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return body()
    }

    /// Tells the system's tools the thread's name. Swift sees neither of the two calls made for it.
    fileprivate static func name(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        var name = String(name.prefix(15))
        name.withUTF8 { _ = write(file, $0.baseAddress, $0.count) }
        close(file)
    }

    /// False when the system refused to make the thread.
    public var isStarted: Bool { state.withLock { $0.handle != nil } }

    /// Why the system refused; nil when the thread was made.
    public var errorNumber: Int32? { state.withLock { $0.errorNumber } }

    /// Lets go of the thread, which goes on: the system takes its memory back when the body has returned. Nobody can join
    /// it any more.
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
