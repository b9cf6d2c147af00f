import Runtime

/// The engine's connections that are working in the database now, each with its start time. Any thread.
final class ActiveDatabaseCalls: Sendable {
    private struct Stay: Sendable {
        let pid: Int32
        let since: Milliseconds
    }

    private struct State: Sendable {
        var stays: [Int: Stay] = [:]
        var stops = false
    }

    private let state = Condition(State())

    /// Records that a thread starts to work in the database over a connection with this backend; `leave` ends that.
    func enter(_ thread: Int, pid: Int32) {
        let now = Clock.monotonicMilliseconds
        state.withLock { $0.stays[thread] = Stay(pid: pid, since: now) }
    }

    func leave(_ thread: Int) { state.withLock { _ = $0.stays.removeValue(forKey: thread) } }

    func stop() { state.broadcast { $0.stops = true } }

    /// Pauses the calling thread; returns false when the engine stops.
    func pause(milliseconds: Milliseconds) -> Bool {
        state.wait(milliseconds: milliseconds) { $0.stops ? true : nil } == nil
    }

    /// The backends of the connections that have worked in the database for longer than this.
    func pids(longerThan milliseconds: Milliseconds) -> [Int32] {
        let now = Clock.monotonicMilliseconds
        return state.withLock { state in
            state.stays.values.filter { now - $0.since >= milliseconds }.map(\.pid)
        }
    }
}

/// The names that the engine's connections have in the database. Other gateways decide by the name whether they may end
/// a connection.
enum BackendName {
    private static let program = "pathmirror "
    static let committerShort = "committer"
    static let largeWriteShort = "large write"
    static let committer = program + committerShort
    /// The name while the large writer writes rows. At the head's lock the connection changes its name, and must not be
    /// ended.
    static let largeWrite = program + largeWriteShort
}
