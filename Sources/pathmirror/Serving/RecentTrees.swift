import Engine
import Feeds
import LogStore
import Runtime
import Synchronization
import Tree

/// The trees of the last entries of the namespaces that have feeds, as the engine has them: feeds begin with these instead of making
/// them from the log once more. Any thread.
final class RecentTrees: TreeSource {
    private let engine: Engine
    private let histories = Mutex<[String: TreeHistory]>([:])
    /// How long a namespace may take to load.
    private static let patienceMilliseconds: Milliseconds = 10_000

    init(_ engine: Engine) { self.engine = engine }

    func tree(of namespace: String, at seq: Int64) -> TreeVersion? { history(of: namespace)?.tree(at: seq) }

    func steps(of namespace: String, after cursor: LogCursor, most: Int) -> [TreeStep]? {
        histories.withLock { $0[namespace] }?.steps(after: cursor, most: most)
    }

    func watch(_ namespace: String, _ body: @escaping @Sendable () -> Void) { history(of: namespace)?.watch(body) }

    private func history(of namespace: String) -> TreeHistory? {
        let known = histories.withLock { $0[namespace] }
        if let known, !known.isOver { return known }
        guard let live = load(namespace) else { return nil }
        let history = TreeHistory(watchedBy: known?.watcher)
        let snapshot = live.subscribe(history, at: .root)
        history.begin(with: snapshot)
        histories.withLock { $0[namespace] = history }
        return history
    }

    func forget(_ namespace: String) {
        guard let history = histories.withLock({ $0.removeValue(forKey: namespace) }) else { return }
        engine.liveNamespace(namespace)?.unsubscribe(history, at: .root)
    }

    private func load(_ namespace: String) -> LiveNamespace? {
        if let live = engine.liveNamespace(namespace) { return live }
        let loaded = Condition<Result<LiveNamespace, EngineError>?>(nil)
        engine.withNamespace(namespace) { result in loaded.signal { $0 = result } }
        let result = loaded.wait(milliseconds: Self.patienceMilliseconds) { $0 }
        return try? result?.get()
    }
}
