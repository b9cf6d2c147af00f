import Engine
import Feeds
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

    func tree(of namespace: String, at seq: Int64) -> TreeVersion? {
        if let known = histories.withLock({ $0[namespace] }), !known.isOver { return known.tree(at: seq) }
        guard let live = load(namespace) else { return nil }
        let history = TreeHistory()
        let snapshot = live.subscribe(history, at: .root)
        history.begin(with: snapshot)
        histories.withLock { $0[namespace] = history }
        return history.tree(at: seq)
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

/// The trees behind the last entries of one namespace. They share what they have in common.
final class TreeHistory: ChangeListener {
    private struct State {
        /// In the order of their seqs.
        var versions: [(tree: TreeVersion, since: Milliseconds)] = []
        var isOver = false
    }
    private let state = Mutex(State())
    /// What was overwritten stays in memory while a version has it: so there are few, and not for long.
    private static let most = 512
    private static let keptMilliseconds: Milliseconds = 10_000

    /// Whether nothing is told any more.
    var isOver: Bool { state.withLock { $0.isOver } }

    /// What there was when the history began to listen. Later ones may be there by then.
    func begin(with snapshot: Snapshot) {
        state.withLock { state in
            guard state.versions.first.map({ $0.tree.seq > snapshot.seq }) ?? true else { return }
            state.versions.insert(
                (TreeVersion(seq: snapshot.seq, root: snapshot.root), Clock.coarseMilliseconds), at: 0)
        }
    }

    /// The newest that is not newer than the entry.
    func tree(at seq: Int64) -> TreeVersion? { state.withLock { $0.versions.last { $0.tree.seq <= seq }?.tree } }

    func changed(_ steps: [Step]) {
        state.withLock { state in
            let now = Clock.coarseMilliseconds
            for step in steps { state.versions.append((TreeVersion(seq: step.entry.seq, root: step.after), now)) }
            // The newest stays, whatever its age.
            let young = state.versions.firstIndex { now - $0.since <= Self.keptMilliseconds } ?? state.versions.count
            let first = max(min(young, state.versions.count - 1), state.versions.count - Self.most)
            if first > 0 { state.versions.removeFirst(first) }
        }
    }

    func reset(to snapshot: Snapshot) {
        state.withLock { state in
            state.versions = [(TreeVersion(seq: snapshot.seq, root: snapshot.root), Clock.coarseMilliseconds)]
        }
    }

    func rulesChanged(in snapshot: Snapshot) {}

    func ended() {
        state.withLock { state in
            state.isOver = true
            state.versions = []
        }
    }
}
