import Synchronization
import Tree

/// Remembers what is written to a namespace while its tree is put into pages, so that it can be done to the packed tree, too. Any thread.
final class PackingRecorder: ChangeListener {
    /// What has been written, in order.
    struct Writes: Sendable {
        var changes: [[Change]] = []
        /// The entry that came last; nil where none did.
        var seq: Int64?
    }

    private struct State: Sendable {
        var writes = Writes()
        var bytes = 0
        var isBroken = false
    }
    private let state = Mutex(State())

    /// More than so many entries at a time are not kept.
    private static let most = 100_000
    private let mostBytes: Int

    /// - Parameter mostBytes: values that take more at a time are not kept either: they are there when memory is short.
    init(mostBytes: Int) { self.mostBytes = mostBytes }

    /// What has come since this was asked last; nil where some of it isn't known.
    func take() -> Writes? {
        state.withLock { state in
            defer {
                state.writes = Writes()
                state.bytes = 0
            }
            return state.isBroken ? nil : state.writes
        }
    }

    func changed(_ steps: [Step]) {
        state.withLock { state in
            guard !state.isBroken, let last = steps.last else { return }
            for step in steps {
                state.writes.changes.append(step.entry.changes)
                state.bytes += step.entry.changes.reduce(0) { $0 + $1.value.heapBytes }
            }
            state.writes.seq = last.entry.seq
            if state.writes.changes.count > Self.most || state.bytes > mostBytes { state = State(isBroken: true) }
        }
    }

    func reset(to snapshot: Snapshot) { state.withLock { $0 = State(isBroken: true) } }

    /// An entry with rules changes no value, so that nobody is told of it as of a write; what came before it has been told.
    func rulesChanged(in snapshot: Snapshot) {
        state.withLock { state in
            if !state.isBroken { state.writes.seq = snapshot.seq }
        }
    }

    func ended() { state.withLock { $0 = State(isBroken: true) } }
}
