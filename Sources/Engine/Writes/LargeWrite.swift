import LogStore
import Runtime
import Tree

/// A large write that is evaluated and whose rows are in an open transaction. It only remains to make it the next
/// entry.
///
/// The large writer's thread passes it to the committer that works on the namespace, and gets it back with a result;
/// only the thread that has it accesses it.
///
/// @unchecked Sendable is safe: the large writer's thread passes it on through the namespace's queue, and does not
/// touch it or its connection until `result` is set.
final class LargeWrite: @unchecked Sendable {
    enum Result: Sendable {
        /// The writer has received the outcome.
        case done
        /// No entry was written, and the write has to be prepared again.
        case again
        /// The write may have been committed, and the outcome could not be determined in time.
        case failed(EngineError)
        /// The connection was lost or the transaction failed: nothing was written.
        case connectionFailed(LogStoreError)
    }

    let item: WriteQueue.Waiting
    let connection: LogConnection
    let number: Int64
    let parts: Int32
    let record: Batch.Record
    let changes: [Change]
    /// The changes as the writer receives them.
    let reported: [Change]
    let id = Batch.makeID()
    /// The tree after the write, including the entries of others since its evaluation.
    var tree: MergedTree

    private let result = Condition<Result?>(nil)

    init(
        _ item: WriteQueue.Waiting, _ connection: LogConnection, number: Int64, parts: Int32, base: Snapshot,
        root: Node,
        record: Batch.Record, changes: [Change], reported: [Change]
    ) {
        self.item = item
        self.connection = connection
        self.number = number
        self.parts = parts
        self.record = record
        self.changes = changes
        self.reported = reported
        tree = MergedTree(
            base, after: root, changes: changes,
            condition: item.write.expectedHash == nil ? nil : item.write.path)
    }

    /// Sets the result; called once, by the thread that has the write.
    func finish(_ value: Result) { result.broadcast { $0 = value } }

    /// Waits until the committer has set the result.
    func wait() -> Result { result.wait { $0 } ?? .again }
}

/// The tree after a large write, including the entries of others since its evaluation. A value.
///
/// The write's rows are those of the tree on which it was evaluated. They are also right after the entries of others,
/// if those entries touch other paths and the nodes above both exist before and after.
struct MergedTree {
    /// The tree that the write was evaluated on.
    let base: Snapshot
    /// The tree after the write and after the entries of others.
    private(set) var root: Node
    /// The position after the last entry of others.
    private(set) var position: LogPosition
    /// The tree after the entries of others alone. Kept only if its root has a priority, which is removed with the last
    /// child.
    private var others: Node?
    private let paths: TouchedPaths
    /// The path whose value the write depends on.
    private let condition: Path?

    /// - Parameters:
    ///   - root: the tree directly after the write.
    ///   - changes: the write's changes, with resolved server values.
    ///   - condition: the path whose value the write depends on, if any.
    init(_ base: Snapshot, after root: Node, changes: [Change], condition: Path?) {
        self.base = base
        self.root = root
        self.condition = condition
        position = base.position
        paths = TouchedPaths(changes)
        others = base.root.priority.isNull ? nil : base.root
    }

    /// The seq of the last entry of others.
    var seq: Int64 { position.seq }

    /// Inserts entries of others before the write. Returns false if that is impossible and the write has to be
    /// evaluated again.
    mutating func take(_ logged: [LoggedEntry]) -> Bool {
        for one in logged {
            let entry = one.entry
            guard entry.seq == position.seq + 1, !entry.isBulk, entry.operation != .rules else { return false }
            for change in entry.changes {
                let isConditional = condition.map { change.path.overlaps($0) } ?? false
                if isConditional || paths.conflicts(with: change) { return false }
                root = root.replacing(change.path, with: change.value)
                guard let without = others?.replacing(change.path, with: change.value) else { continue }
                if without.isNull { return false }
                others = without
            }
            position = one.position
        }
        // The root's own priority is removed with the last child, and would return with the next.
        return logged.isEmpty || !root.isNull && root.priority == base.root.priority && !base.root.isNull
    }
}

extension Path {
    fileprivate func overlaps(_ other: Path) -> Bool { contains(other) || other.contains(self) }
}

/// The paths that a write touches. They show whether another write could have been made before or after it with the
/// same result.
struct TouchedPaths {
    private final class Level {
        var children: [Key: Level] = [:]
        var isTouched = false
    }

    private let root = Level()
    /// First keys of paths at which a value is removed: a parent that becomes empty is removed, with its priority.
    private var emptied: Set<Key> = []
    private var first: Set<Key> = []

    /// - Parameter changes: the changes with resolved server values.
    init(_ changes: [Change]) {
        for change in changes {
            var level = root
            for key in Self.keys(of: change) {
                if let child = level.children[key] {
                    level = child
                } else {
                    let child = Level()
                    level.children[key] = child
                    level = child
                }
            }
            level.isTouched = true
            guard let key = change.path.keys.first else { continue }
            first.insert(key)
            if change.value.isNull { emptied.insert(key) }
        }
    }

    /// Whether the order of this write and a change of another one could matter. True in case of doubt.
    func conflicts(with change: Change) -> Bool {
        let keys = Self.keys(of: change)
        guard let key = keys.first else { return true }
        if emptied.contains(key) || (change.value.isNull && first.contains(key)) { return true }
        var level = root
        for key in keys {
            if level.isTouched { return true }
            guard let child = level.children[key] else { return false }
            level = child
        }
        // The write touches a path at or below the change's path.
        return true
    }

    /// Returns the keys of the value that a change affects: a priority belongs to its value.
    private static func keys(of change: Change) -> ArraySlice<Key> {
        change.path.namesPriority ? change.path.keys.dropLast() : change.path.keys[...]
    }
}
