import Engine
import Feeds
import LogStore
import Runtime
import Synchronization
import Tree

/// The trees of the last entries of the namespaces that have feeds, as the engine has them: feeds begin with these instead of making
/// them from the log once more. Any thread.
final class RecentTrees: TreeSource {
    private struct Place: Sendable {
        let wake: @Sendable () -> Void
        var history: TreeHistory?
        /// Which reading of the namespace is under way; nil where none is.
        var coming: Int?
        /// When it was asked for last.
        var askedAt: Milliseconds = 0
    }
    private struct State: Sendable {
        var places: [String: Place] = [:]
        var askings = 0
    }

    private let engine: Engine
    private let budget: TreeBudget
    private let state = Mutex(State())
    /// A namespace that can't be had is not asked for again before then.
    private static let pauseMilliseconds: Milliseconds = 1_000

    init(_ engine: Engine, _ budget: TreeBudget) {
        self.engine = engine
        self.budget = budget
    }

    func room(while goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom { budget.room(while: goesOn) }

    func tree(of namespace: String, at seq: Int64) -> TreeVersion? {
        guard let history = history(of: namespace) else { return nil }
        guard history.isOver else { return history.tree(at: seq) }
        ask(namespace)
        return nil
    }

    func steps(of namespace: String, after cursor: LogCursor, most: Int) -> [TreeStep]? {
        history(of: namespace)?.steps(after: cursor, most: most)
    }

    func standing(of namespace: String) -> TreeStanding? { history(of: namespace)?.standing }

    func isComing(_ namespace: String) -> Bool { state.withLock { $0.places[namespace]?.coming != nil } }

    func watch(_ namespace: String, _ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.places[namespace] = Place(wake: body) }
        ask(namespace)
    }

    func forget(_ namespace: String) {
        let history = state.withLock { $0.places.removeValue(forKey: namespace)?.history }
        if let history { engine.liveNamespace(namespace)?.unsubscribe(history, at: .root) }
    }

    private func history(of namespace: String) -> TreeHistory? { state.withLock { $0.places[namespace]?.history } }

    private func ask(_ namespace: String) {
        let asking = state.withLock { state -> Int? in
            guard var place = state.places[namespace], place.coming == nil else { return nil }
            let now = Clock.monotonicMilliseconds
            guard place.askedAt == 0 || now - place.askedAt >= Self.pauseMilliseconds else { return nil }
            state.askings += 1
            place.coming = state.askings
            place.askedAt = now
            state.places[namespace] = place
            return state.askings
        }
        guard let asking else { return }
        engine.withNamespace(namespace) { [weak self] in self?.came(namespace, asking, try? $0.get()) }
    }

    private func came(_ namespace: String, _ asking: Int, _ live: LiveNamespace?) {
        let place = state.withLock { $0.places[namespace] }
        guard let place, place.coming == asking else { return }
        var history: TreeHistory?
        if let live {
            let begun = TreeHistory(watchedBy: place.wake)
            begun.begin(with: live.subscribe(begun, at: .root))
            history = begun
        }
        let isKept = state.withLock { state in
            guard state.places[namespace]?.coming == asking else { return false }
            state.places[namespace]?.coming = nil
            if let history { state.places[namespace]?.history = history }
            return true
        }
        guard isKept else {
            // It was forgotten meanwhile.
            if let history { live?.unsubscribe(history, at: .root) }
            return
        }
        place.wake()
    }
}
