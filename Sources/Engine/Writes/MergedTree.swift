import LogStore
import Tree

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
