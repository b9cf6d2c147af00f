import Runtime

/// Which of the engine's connections work in the database now, and since when. Any thread.
final class DatabaseStays: Sendable {
    private struct Stay: Sendable {
        let pid: Int32
        let since: Milliseconds
    }

    private struct State: Sendable {
        var stays: [Int: Stay] = [:]
        var stops = false
    }

    private let state = Condition(State())

    /// A thread begins to work in the database, over a connection with this backend; `leave` ends it.
    func enter(_ thread: Int, pid: Int32) {
        let now = Clock.monotonicMilliseconds
        state.withLock { $0.stays[thread] = Stay(pid: pid, since: now) }
    }

    func leave(_ thread: Int) { state.withLock { _ = $0.stays.removeValue(forKey: thread) } }

    func stop() { state.broadcast { $0.stops = true } }

    /// Waits so long; false when the engine stops.
    func pause(milliseconds: Milliseconds) -> Bool {
        state.wait(milliseconds: milliseconds) { $0.stops ? true : nil } == nil
    }

    /// The backends of those that have been there for so long.
    func pids(longerThan milliseconds: Milliseconds) -> [Int32] {
        let now = Clock.monotonicMilliseconds
        return state.withLock { state in
            state.stays.values.filter { now - $0.since >= milliseconds }.map(\.pid)
        }
    }
}

/// What the engine's connections call themselves: other gateways tell by it what they may do to one.
enum BackendName {
    private static let program = "pathmirror "
    static let committerShort = "committer"
    static let largeWriteShort = "large write"
    static let committer = program + committerShort
    /// While it writes rows. At the head's lock it says so, and is not to be disturbed.
    static let largeWrite = program + largeWriteShort
}
