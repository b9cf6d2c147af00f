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
        var isBroken = false
    }
    private let state = Mutex(State())

    /// More than so many entries at a time are not kept.
    private static let most = 100_000

    /// What has come since this was asked last; nil where some of it isn't known.
    func take() -> Writes? {
        state.withLock { state in
            defer { state.writes = Writes() }
            return state.isBroken ? nil : state.writes
        }
    }

    func changed(_ steps: [Step]) {
        state.withLock { state in
            guard !state.isBroken, let last = steps.last else { return }
            state.writes.changes += steps.map(\.entry.changes)
            state.writes.seq = last.entry.seq
            if state.writes.changes.count > Self.most { state = State(isBroken: true) }
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
