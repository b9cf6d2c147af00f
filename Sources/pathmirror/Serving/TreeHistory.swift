import Engine
import Feeds
import LogStore
import Runtime
import Synchronization
import Tree

/// The last entries of one namespace, and the trees after them, which share their common parts. Any thread.
final class TreeHistory: ChangeListener {
    private struct Version {
        let seq: Int64
        /// Nil if the tree is no longer kept.
        private(set) var root: Node?
        /// The entry and its batch. Nil for the initial tree, and for loads whose changes are not fully known.
        let entry: Entry?
        let batch: [UInt8]?
        let since: Milliseconds
        /// The estimated memory of the version.
        let cost: Int

        init(_ snapshot: Snapshot) {
            seq = snapshot.seq
            root = snapshot.root
            entry = nil
            batch = nil
            since = Clock.coarseMilliseconds
            cost = 0
        }

        init(_ step: Step, _ now: Milliseconds) {
            seq = step.entry.seq
            root = step.after
            entry = step.committedAt.flatMap { step.entry.isBulk ? nil : step.entry.committed(at: $0) }
            batch = step.batch
            since = now
            cost = step.entry.changes.reduce(500) { $0 + $1.value.estimatedBytes }
        }

        mutating func forgetTree() { root = nil }
    }
    private struct State {
        /// Sorted by seq.
        var versions: [Version] = []
        /// The number of versions at the beginning that have no tree any more.
        var treeless = 0
        var cost = 0
        var isOver = false
        var watcher: (@Sendable () -> Void)?

        /// Removes versions that are old or exceed the limits: trees first, and then entries.
        mutating func forget(_ now: Milliseconds) {
            while treeless < versions.count - 1,
                versions.count - treeless > TreeHistory.mostTrees
                    || now - versions[treeless].since > TreeHistory.treeMilliseconds
            {
                versions[treeless].forgetTree()
                treeless += 1
            }
            forgetEntries(now)
        }

        /// Removes several at a time, because the remaining ones are moved.
        private mutating func forgetEntries(_ now: Milliseconds) {
            var first = 0
            var left = cost
            // The newest version is kept, whatever its age.
            while first < versions.count - 1,
                versions.count - first > TreeHistory.mostVersions || left > TreeHistory.mostCost
                    || now - versions[first].since > TreeHistory.keptMilliseconds
            {
                left -= versions[first].cost
                first += 1
            }
            guard first >= versions.count / 8 || cost > TreeHistory.mostCost * 9 / 8 else { return }
            versions.removeFirst(first)
            treeless = max(0, treeless - first)
            cost = left
        }
    }
    private let state: Mutex<State>
    /// The limit of trees. A version keeps overwritten values in memory, and has copies of the nodes along the written path, so there are
    /// few versions, for a short time.
    fileprivate static let mostTrees = 4_096
    fileprivate static let treeMilliseconds: Milliseconds = 10_000
    /// The limit of entries. Entries without trees cost little: a reader that was briefly absent finds them here instead of in the log.
    fileprivate static let mostVersions = 65_536
    fileprivate static let mostCost = 64 << 20
    fileprivate static let keptMilliseconds: Milliseconds = 60_000

    /// - Parameter watcher: called after each change.
    init(watchedBy watcher: (@Sendable () -> Void)? = nil) { state = Mutex(State(watcher: watcher)) }

    /// Whether the history receives no more changes.
    var isOver: Bool { state.withLock { $0.isOver } }

    /// Adds the tree at the start of the subscription. Later versions may already be there.
    func begin(with snapshot: Snapshot) {
        state.withLock { state in
            guard state.versions.first.map({ $0.seq > snapshot.seq }) ?? true else { return }
            state.versions.insert(Version(snapshot), at: 0)
        }
    }

    /// Returns the newest version that is not newer than the entry.
    func tree(at seq: Int64) -> TreeVersion? {
        state.withLock { state in
            guard let version = state.versions.last(where: { $0.seq <= seq }), let root = version.root else {
                return nil
            }
            return TreeVersion(seq: version.seq, root: root)
        }
    }

    /// Returns the entries after a position, in order and without a gap; nil if the position is unknown.
    func steps(after cursor: LogPosition, most: Int) -> [TreeStep]? {
        state.withLock { state -> [TreeStep]? in
            guard !state.isOver, let batch = cursor.batch else { return nil }
            var low = 0
            var high = state.versions.count
            while low < high {
                let middle = (low + high) / 2
                if state.versions[middle].seq < cursor.seq { low = middle + 1 } else { high = middle }
            }
            // The batch proves that the position belongs to this history.
            guard low < state.versions.count, state.versions[low].seq == cursor.seq, state.versions[low].batch == batch
            else { return nil }
            var steps: [TreeStep] = []
            for index in state.versions.indices.dropFirst(low + 1).prefix(most) {
                let version = state.versions[index]
                let former = state.versions[index - 1]
                guard version.seq == former.seq + 1, let entry = version.entry, let batch = version.batch else {
                    return steps.isEmpty ? nil : steps
                }
                steps.append(TreeStep(entry: entry, batch: batch, before: former.root, after: version.root))
            }
            return steps
        }
    }

    // MARK: As a listener

    func changed(_ steps: [Step]) {
        let watcher = state.withLock { state in
            let now = Clock.coarseMilliseconds
            for step in steps {
                let version = Version(step, now)
                state.cost += version.cost
                state.versions.append(version)
            }
            state.forget(now)
            return state.watcher
        }
        watcher?()
    }

    func reset(to snapshot: Snapshot) {
        let watcher = state.withLock { state in
            state.versions = [Version(snapshot)]
            state.treeless = 0
            state.cost = 0
            return state.watcher
        }
        watcher?()
    }

    func rulesChanged(in snapshot: Snapshot) {}

    func ended() {
        state.withLock { state in
            state.isOver = true
            state.versions = []
            state.treeless = 0
        }
    }
}
