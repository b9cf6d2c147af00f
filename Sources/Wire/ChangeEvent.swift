public import Tree

/// The change that one entry causes for a listener at a path: a replacement, or a merge, at or below the listener's
/// path.
public enum ChangeEvent: Sendable, Equatable {
    /// The value at `path` (relative to the listener) is now `value`.
    case put(Path, Node)
    /// Below `path`, each of these relative paths has a new value; all other values are unchanged.
    case patch(Path, [Change])

    /// Creates the event for a listener without a query. Returns nil if the entry changes nothing for the listener
    /// (reference: rtdb-protocol 3.4 and 8).
    ///
    /// - Parameters:
    ///   - before: the tree before the entry, or nil if it is unknown. In that case a replacement above the listener
    ///     always creates an event.
    public init?(_ entry: Entry, at listener: Path, before: Node?) {
        // A replacement above the listener determines its whole value.
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
            // One operation becomes one event, at the update's own path, or at the listener's if that is deeper.
            let base = listener.contains(entry.path) ? entry.path : listener
            self = .patch(
                base.relative(to: listener),
                below.map { Change(path: $0.path.relative(to: base), value: $0.value) })
            return
        }
        self = .put(first.path.relative(to: listener), first.value)
    }

    /// Creates the event for a listener with a query: the change of its result. Returns nil if the result is unchanged.
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
