public import Tree

/// What a listener at some path is told of one entry: a replacement, or a merge, at or below its path.
public enum ChangeEvent: Sendable, Equatable {
    /// The value at `path` (below the listener's) is now `value`.
    case put(Path, Node)
    /// Below `path`, each of these (relative) places has a new value; all others are as they were.
    case patch(Path, [Change])

    /// The event for a listener without a query, or nil when the entry says nothing new to it (reference: rtdb-protocol
    /// 3.4 and 8).
    ///
    /// - Parameters:
    ///   - before: the tree before the entry, or nil when that isn't known: then a replacement above the listener is always
    ///     told.
    public init?(_ entry: Entry, at listener: Path, before: Node?) {
        // What replaces something above the listener decides its whole value.
        var whole: Node?
        var below: [Change] = []
        for change in entry.changes {
            if change.path.namesPriority, change.path != listener, let node = change.path.parent {
                if listener.contains(node) { below.append(change) }
            } else if change.path.depth <= listener.depth {
                guard change.path.contains(listener) else { continue }
                whole = change.value[listener.dropFirst(change.path.depth)]
                below.removeAll()
            } else if listener.contains(change.path) {
                below.append(change)
            }
        }
        if let whole {
            let isAtListener = entry.changes.contains { $0.path == listener }
            if let before, !isAtListener, before[listener] == whole { return nil }
            self = .put(.root, whole)
            return
        }
        guard let first = below.first else { return nil }
        if entry.operation == .update || entry.changes.count > 1 {
            // One operation is one event, at the update's own place, or at the listener's where that is lower.
            let base = listener.contains(entry.path) ? entry.path : listener
            self = .patch(
                base.relative(to: listener),
                below.map { Change(path: $0.path.relative(to: base), value: $0.value) })
            return
        }
        self = .put(first.path.relative(to: listener), first.value)
    }

    /// The event for a listener with a query: how its window changed, or nil when it did not.
    public init?(from old: Node, to new: Node) {
        guard case .branch(let first) = old, case .branch(let second) = new else {
            guard old != new else { return nil }
            self = .put(.root, new)
            return
        }
        var changes: [Change] = []
        for entry in second.children {
            if let existing = first.children[entry.key], existing == entry.node { continue }
            changes.append(Change(path: Path([entry.key]), value: entry.node))
        }
        for entry in first.children where second.children[entry.key] == nil {
            changes.append(Change(path: Path([entry.key]), value: .null))
        }
        guard let change = changes.first else { return nil }
        self = changes.count == 1 ? .put(change.path, change.value) : .patch(.root, changes)
    }
}
