import Engine
import Feeds
import LogStore
import Runtime
import Synchronization
import Tree

/// The trees of the last entries of the namespaces with feeds, taken from the engine. Feeds begin with these instead of rebuilding them
/// from the log. Any thread.
final class RecentTrees: TreeSource {
    private struct Entry: Sendable {
        let name: String
        let wake: @Sendable () -> Void
        var history: TreeHistory?
        /// The number of the load in progress; nil if there is none.
        var coming: Int?
        /// The time of the last load.
        var askedAt: Milliseconds?
    }
    private struct State: Sendable {
        var entries: [Int64: Entry] = [:]
        var askings = 0
    }

    private let engine: Engine
    private let budget: TreeBudget
    private let state = Mutex(State())
    /// The least time between two loads of a namespace.
    private static let pauseMilliseconds: Milliseconds = 1_000

    init(_ engine: Engine, _ budget: TreeBudget) {
        self.engine = engine
        self.budget = budget
    }

    func room(while shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget {
        budget.room(while: shouldContinue)
    }

    func tree(of namespace: Int64, at seq: Int64) -> TreeVersion? {
        guard let history = history(of: namespace), !history.isOver else {
            ask(namespace)
            return nil
        }
        return history.tree(at: seq)
    }

    func steps(of namespace: Int64, after cursor: LogPosition, most: Int) -> [TreeStep]? {
        history(of: namespace)?.steps(after: cursor, most: most)
    }

    func isComing(_ namespace: Int64) -> Bool { state.withLock { $0.entries[namespace]?.coming != nil } }

    func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void) {
        forget(namespace)
        state.withLock { $0.entries[namespace] = Entry(name: name, wake: body) }
        ask(namespace)
    }

    func forget(_ namespace: Int64) {
        guard let entry = state.withLock({ $0.entries.removeValue(forKey: namespace) }) else { return }
        guard let history = entry.history, let live = engine.liveNamespace(entry.name), live.id == namespace else {
            return
        }
        live.unsubscribe(history, at: .root)
    }

    private func history(of namespace: Int64) -> TreeHistory? { state.withLock { $0.entries[namespace]?.history } }

    /// Loads an unknown namespace, unless a load is in progress or the last one was recent.
    private func ask(_ namespace: Int64) {
        let asked = state.withLock { state -> (name: String, asking: Int)? in
            guard var entry = state.entries[namespace], entry.coming == nil else { return nil }
            let now = Clock.monotonicMilliseconds
            if let last = entry.askedAt, now - last < Self.pauseMilliseconds { return nil }
            state.askings += 1
            entry.coming = state.askings
            entry.askedAt = now
            state.entries[namespace] = entry
            return (entry.name, state.askings)
        }
        guard let asked else { return }
        engine.withNamespace(asked.name) { [weak self] in self?.came(namespace, asked.asking, try? $0.get()) }
    }

    private func came(_ namespace: Int64, _ asking: Int, _ live: LiveNamespace?) {
        let entry = state.withLock { $0.entries[namespace] }
        guard let entry, entry.coming == asking else { return }
        var history: TreeHistory?
        if let live, live.id == namespace {
            let begun = TreeHistory(watchedBy: entry.wake)
            begun.begin(with: live.subscribe(begun, at: .root))
            // A listener that is added after the end receives no further events.
            if !live.hasEnded { history = begun }
        }
        let isKept = state.withLock { state in
            guard state.entries[namespace]?.coming == asking else { return false }
            state.entries[namespace]?.coming = nil
            if let history { state.entries[namespace]?.history = history }
            return true
        }
        guard isKept else {
            // It was forgotten meanwhile.
            if let history { live?.unsubscribe(history, at: .root) }
            return
        }
        entry.wake()
    }
}
