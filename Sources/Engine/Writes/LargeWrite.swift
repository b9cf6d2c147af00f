import LogStore
import Runtime
import Tree

/// A large write that is evaluated and whose rows are in an open transaction: what is left is to make it the next entry.
///
/// It goes from the large writer's thread to the committer that works on the namespace, and comes back with a result; only
/// the one that has it touches it.
///
/// @unchecked Sendable is safe: the large writer's thread hands it over through the namespace's queue, and does nothing with
/// it or with its connection until `result` is there.
final class LargeWrite: @unchecked Sendable {
    enum Result: Sendable {
        /// Its outcome has been told.
        case done
        /// Nothing was written, and it has to be prepared anew.
        case again
        /// It may have been committed, and nobody could find out in time.
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
    /// As the writer is told of them.
    let told: [Change]
    let id = Batch.makeID()
    /// The tree after it, with what others have written since it was evaluated.
    var tree: MergedTree

    private let result = Condition<Result?>(nil)

    init(
        _ item: WriteQueue.Waiting, _ connection: LogConnection, number: Int64, parts: Int32, base: Snapshot,
        root: Node,
        record: Batch.Record, changes: [Change], told: [Change]
    ) {
        self.item = item
        self.connection = connection
        self.number = number
        self.parts = parts
        self.record = record
        self.changes = changes
        self.told = told
        tree = MergedTree(
            base, after: root, changes: changes,
            condition: item.write.expectedHash == nil ? nil : item.write.path)
    }

    /// Says what became of it; called once, by whoever has it.
    func finish(_ value: Result) { result.broadcast { $0 = value } }

    /// Waits until the committer is done with it.
    func wait() -> Result { result.wait { $0 } ?? .again }
}

/// The tree after a large write, with what others have written since the write was evaluated. A value.
///
/// The write's rows are those of the tree that it was evaluated on. They are the right ones after the others' entries, too, if
/// those touch other places, and what is above both is there before and after.
struct MergedTree {
    /// The tree that the write was evaluated on.
    let base: Snapshot
    /// The tree after the write and after the others' entries.
    private(set) var root: Node
    /// The last entry of the others.
    private(set) var seq: Int64
    /// The batch of that entry, where it is known.
    private(set) var batch: [UInt8]?
    /// The tree after the others' entries alone; kept where its root has a priority, which goes with the last child.
    private var others: Node?
    private let paths: TouchedPaths
    /// The place whose value the write depends on.
    private let condition: Path?

    /// - Parameters:
    ///   - root: the tree right after the write.
    ///   - changes: the write's, with their server values filled in.
    ///   - condition: the place whose value the write depends on, if it does.
    init(_ base: Snapshot, after root: Node, changes: [Change], condition: Path?) {
        self.base = base
        self.root = root
        self.condition = condition
        seq = base.seq
        batch = base.batch
        paths = TouchedPaths(changes)
        others = base.root.priority.isNull ? nil : base.root
    }

    /// Puts entries that others wrote before the write. False where that can't be done: it has to be evaluated anew.
    mutating func take(_ logged: [LoggedEntry]) -> Bool {
        for one in logged {
            let entry = one.entry
            guard entry.seq == seq + 1, !entry.isBulk, entry.operation != .rules else { return false }
            for change in entry.changes {
                let isConditional = condition.map { change.path.overlaps($0) } ?? false
                if isConditional || paths.conflicts(with: change) { return false }
                root = root.replacing(change.path, with: change.value)
                guard let without = others?.replacing(change.path, with: change.value) else { continue }
                if without.isNull { return false }
                others = without
            }
            seq = entry.seq
            batch = one.batchID
        }
        // The root's own priority goes with the last child, and would come back with the next.
        return logged.isEmpty || !root.isNull && root.priority == base.root.priority && !base.root.isNull
    }
}

extension Path {
    fileprivate func overlaps(_ other: Path) -> Bool { contains(other) || other.contains(self) }
}

/// The places that a write touches, for asking whether another write could have been made before or after it with the same
/// result.
struct TouchedPaths {
    private final class Place {
        var children: [Key: Place] = [:]
        var isTouched = false
    }

    private let root = Place()
    /// First keys of places where something is removed: what that leaves empty goes, with its priority.
    private var emptied: Set<Key> = []
    private var first: Set<Key> = []

    /// - Parameter changes: with their server values filled in.
    init(_ changes: [Change]) {
        for change in changes {
            var place = root
            for key in Self.keys(of: change) {
                if let child = place.children[key] {
                    place = child
                } else {
                    let child = Place()
                    place.children[key] = child
                    place = child
                }
            }
            place.isTouched = true
            guard let key = change.path.keys.first else { continue }
            first.insert(key)
            if change.value.isNull { emptied.insert(key) }
        }
    }

    /// Whether the order of this write and a change of another one could matter. In doubt it says that it could.
    func conflicts(with change: Change) -> Bool {
        let keys = Self.keys(of: change)
        guard let key = keys.first else { return true }
        if emptied.contains(key) || (change.value.isNull && first.contains(key)) { return true }
        var place = root
        for key in keys {
            if place.isTouched { return true }
            guard let child = place.children[key] else { return false }
            place = child
        }
        // Something at or below it is touched.
        return true
    }

    /// A priority belongs to what it is the priority of.
    private static func keys(of change: Change) -> ArraySlice<Key> {
        change.path.namesPriority ? change.path.keys.dropLast() : change.path.keys[...]
    }
}
