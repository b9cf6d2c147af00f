import Engine
import Runtime
import TestSupport
import Tree

/// A listener that maintains the value at a path from its notifications, and records every violation.
final class RecordingListener: ChangeListener {
    struct State {
        var path = Path.root
        /// The tree after the last step received.
        var root = Node.null
        var seq: Int64 = -1
        var seqs: [Int64] = []
        var resets: [Int64] = []
        var mistakes: [String] = []
        var isInside = false
        /// Steps that arrived before `started`.
        var early: [Step] = []
        var hasStarted = false
        var hasEnded = false
    }
    private let state = Condition(State())

    /// Sets the snapshot from which notifications start, and applies the steps that have arrived meanwhile.
    func started(_ snapshot: Snapshot, at path: Path) {
        state.broadcast { state in
            state.path = path
            state.root = snapshot.root
            state.seq = snapshot.seq
            state.hasStarted = true
            let early = state.early
            state.early = []
            Self.take(early, &state)
        }
    }

    func ended() { state.broadcast { $0.hasEnded = true } }

    func changed(_ steps: [Step]) {
        state.broadcast { state in
            if state.isInside { state.mistakes.append("told by two threads at once") }
            state.isInside = true
            if steps.isEmpty { state.mistakes.append("told of nothing") }
            if state.hasStarted { Self.take(steps, &state) } else { state.early += steps }
            state.isInside = false
        }
    }

    private static func take(_ steps: [Step], _ state: inout State) {
        for step in steps {
            if step.entry.seq <= state.seq {
                state.mistakes.append("seq \(step.entry.seq) after \(state.seq)")
            }
            // Steps that do not touch the listener are not delivered: its value must be unchanged.
            if step.before[state.path] != state.root[state.path] {
                state.mistakes.append("a change before seq \(step.entry.seq) was missed")
            }
            state.seq = step.entry.seq
            state.seqs.append(step.entry.seq)
            state.root = step.after
        }
    }

    func reset(to snapshot: Snapshot) {
        state.broadcast { state in
            state.root = snapshot.root
            state.seq = snapshot.seq
            state.resets.append(snapshot.seq)
        }
    }

    func rulesChanged(in snapshot: Snapshot) {}

    var now: State { state.withLock { $0 } }

    /// Waits until the state satisfies a condition, and returns it; nil after 20 seconds.
    func wait(until isRight: (State) -> Bool) -> State? {
        state.wait(milliseconds: 20_000) { isRight($0) ? $0 : nil }
    }
}
