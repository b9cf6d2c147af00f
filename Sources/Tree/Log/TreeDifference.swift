/// The changes that turn one tree into another.
///
/// Applied together with `Node.replacing(_:)`, they make exactly the new tree. Leaves are equal if the store can't distinguish
/// them: `0` and `-0` differ, and so do an integer and a double of the same value, which have different texts.
public enum TreeDifference {
    /// Returns the changes in the order of their steps (`ApplicationOrder`), and by path within a step. No path is at or
    /// below another, except that a priority may come with changes of its node's children.
    ///
    /// A change is at the topmost path at which one of the trees has no branch. If nothing of a branch remains and more
    /// than one change was needed, one change replaces the branch. A priority that changes alone is one change at
    /// `…/.priority`.
    ///
    /// The cost depends on the parts that the trees don't share.
    public static func changes(from old: Node, to new: Node) -> [Change] {
        var finder = DifferenceFinder()
        _ = finder.find(old, new)
        return ApplicationOrder.sorted(finder.changes)
    }

    /// Returns the changes of the root's children in a range of keys. The roots' priorities and other children don't
    /// matter.
    ///
    /// - Parameters:
    ///   - first: the first key of the range; nil for an open start.
    ///   - last: the last key of the range; nil for an open end.
    public static func changes(from old: Node, to new: Node, keysFrom first: Key?, through last: Key?) -> [Change] {
        var finder = DifferenceFinder()
        finder.findChildren(
            old.restricted(toKeysFrom: first, through: last), new.restricted(toKeysFrom: first, through: last))
        return ApplicationOrder.sorted(finder.changes)
    }
}

private struct DifferenceFinder {
    var changes: [Change] = []
    private var path = Path()

    /// Finds the changes at and below the current path. Returns whether a part of the old node remains.
    mutating func find(_ old: Node, _ new: Node) -> Bool {
        if old.isIdentical(to: new) { return true }
        let start = changes.count
        guard case .branch(let first) = old, case .branch(let second) = new else { return leaf(old, new) }
        var remains = findChildren(first.children, second.children)
        if first.priority != second.priority {
            changes.append(Change(path: path.appending(.priority), value: second.priority))
        } else if !first.priority.isNull {
            remains = true
        }
        if !remains, changes.count - start > 1 {
            changes.removeSubrange(start...)
            changes.append(Change(path: path, value: new))
        }
        return remains
    }

    /// Finds the changes of the children of two nodes, which may also be null.
    mutating func findChildren(_ old: Node, _ new: Node) {
        let none = ChildMap(sorted: [])
        let first = if case .branch(let branch) = old { branch.children } else { none }
        let second = if case .branch(let branch) = new { branch.children } else { none }
        _ = findChildren(first, second)
    }

    private mutating func findChildren(_ old: ChildMap, _ new: ChildMap) -> Bool {
        // Children that are visited are of both versions or of one; all others are in both.
        var visited = 0
        var remains = false
        new.forEachOrderedDifference(from: old) { before, after in
            guard let key = (before ?? after)?.key else { return }
            if before != nil { visited += 1 }
            path.append(key)
            if find(before?.node ?? .null, after?.node ?? .null) { remains = true }
            path.removeLast()
        }
        return remains || visited < old.count
    }

    /// Finds the change of a node that is not a branch in both trees.
    private mutating func leaf(_ old: Node, _ new: Node) -> Bool {
        if old == new { return true }
        if old.isLeaf, new.isLeaf, old.withoutPriority == new.withoutPriority {
            changes.append(Change(path: path.appending(.priority), value: new.priority))
            return true
        }
        changes.append(Change(path: path, value: new))
        return false
    }
}
