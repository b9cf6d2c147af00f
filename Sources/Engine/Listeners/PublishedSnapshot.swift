import Synchronization
import Tree

/// The newest snapshot of a namespace and its listeners, changed together: a new listener sees a snapshot and then
/// every later step exactly once.
///
///     a batch or the log: snapshot 8, steps 7 and 8
///         |
///         |  under the lock: replace the snapshot, look up the listeners of each change in `ListenerIndex`
///         v
///     listener at /rooms: steps 7, 8     listener at /rooms/r1: step 8     listener at /users: no step, no call
///         |                                  |
///         |  outside the lock, on the thread that publishes
///         v                                  v
///     changed([7, 8])                    changed([8])
///         |
///         |  if the snapshot has other rules
///         v
///     rulesChanged(in:), for every listener
///
/// Each listener gets one call per publication, with its steps in the order of the log. One thread at a time works on a
/// namespace, so publications of one namespace do not overlap. `reset` replaces the snapshot without steps, if the
/// steps between the two snapshots are unknown.
final class PublishedSnapshot: Sendable {
    // The index's nodes are class instances; they are only reached through this lock.
    private struct State: ~Copyable {
        var snapshot: Snapshot
        var index = ListenerIndex()
    }
    private let state: Mutex<State>

    init(_ snapshot: Snapshot) { state = Mutex(State(snapshot: snapshot)) }

    var snapshot: Snapshot { state.withLock { $0.snapshot } }
    var listenerCount: Int { state.withLock { $0.index.count } }

    /// Adds a listener, which receives the steps after the returned snapshot.
    func subscribe(_ listener: any ChangeListener, at path: Path) -> Snapshot {
        state.withLock { state in
            state.index.add(listener, at: path)
            return state.snapshot
        }
    }

    func unsubscribe(_ listener: any ChangeListener, at path: Path) {
        state.withLock { $0.index.remove(listener, at: path) }
    }

    /// Publishes the state after `steps` and notifies the listeners that the steps touch.
    func publish(_ steps: [Step], _ snapshot: Snapshot) {
        struct Notice: Sendable {
            let listener: any ChangeListener
            var steps: [Int]
        }
        let (notices, all) = state.withLock { state -> ([ObjectIdentifier: Notice], [any ChangeListener]) in
            let hasNewRules = state.snapshot.rules !== snapshot.rules
            state.snapshot = snapshot
            var notices: [ObjectIdentifier: Notice] = [:]
            var all: [any ChangeListener] = []
            guard !state.index.isEmpty else { return (notices, all) }
            if hasNewRules { all = state.index.all }
            for (position, step) in steps.enumerated() {
                for change in step.entry.changes {
                    state.index.forEachTouched(by: change.path) { listener in
                        let id = ObjectIdentifier(listener)
                        if notices[id]?.steps.last == position { return }
                        notices[id, default: Notice(listener: listener, steps: [])].steps.append(position)
                    }
                }
            }
            return (notices, all)
        }
        // Outside the lock: encoding an event takes time, and readers must not wait for it.
        for one in notices.values { one.listener.changed(one.steps.map { steps[$0] }) }
        for listener in all { listener.rulesChanged(in: snapshot) }
    }

    /// Publishes a state without its steps. Returns false, without publishing, if there are listeners, which need the
    /// steps.
    func publishUnheard(_ snapshot: Snapshot) -> Bool {
        state.withLock { state in
            guard state.index.isEmpty else { return false }
            state.snapshot = snapshot
            return true
        }
    }

    /// Notifies all listeners that no more steps follow.
    func end(with snapshot: Snapshot) {
        let listeners = state.withLock { state -> [any ChangeListener] in
            state.snapshot = snapshot
            return state.index.all
        }
        for listener in listeners { listener.ended() }
    }

    /// Publishes a state that was reached by unknown steps.
    func reset(to snapshot: Snapshot) {
        let listeners = state.withLock { state -> [any ChangeListener] in
            state.snapshot = snapshot
            return state.index.all
        }
        for listener in listeners {
            listener.reset(to: snapshot)
            listener.rulesChanged(in: snapshot)
        }
    }
}
