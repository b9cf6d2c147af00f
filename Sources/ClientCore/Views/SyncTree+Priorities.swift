import Tree

/// Priorities above a place that changes.
extension SyncTree {
    /// The topmost place on the way that has a priority, or may have one, and where the client's own writes lie over the
    /// server's data: whether it was without children for a moment, and has lost its priority by that, depends on all of
    /// them.
    func firstWithPriority(_ node: Node, at path: Path, above place: Path) -> Path? {
        guard var point = writes.point(at: path) else { return nil }
        var node = node
        var sent = serverValue(at: path)
        for (depth, key) in place.keys.enumerated() {
            let isSent = sent.map { !$0.priority.isNull } ?? false
            if isSent || !node.priority.isNull || point.children[.priority] != nil { return place.prefix(depth) }
            guard let below = point.children[key] else { return nil }
            point = below
            node = node.child(key)
            sent = sent?.child(key)
        }
        return nil
    }

    /// Whether a write that later ones hide may yet decide about the priority of a place above.
    func concernsPriorities(above path: Path) -> Bool {
        var point: WriteTree.Point? = writes.root
        for key in path.keys {
            guard let here = point else { break }
            if key != .priority, here.children[.priority] != nil { return true }
            point = here.children[key]
        }
        guard let (node, depth) = known(path) else { return false }
        var sent = node
        for key in path.dropFirst(depth).keys {
            if !sent.priority.isNull { return true }
            sent = sent.child(key)
        }
        return false
    }
}
