import Tree

/// Selects the writes that a reader sees.
struct WriteFilter {
    var excluded: Set<WriteID> = []
    /// If set, only writes with lower numbers count.
    var before: WriteID?
    /// Whether transactions that are not applied locally count.
    var includesHidden = false

    func admits(_ entry: WriteTree.Entry) -> Bool {
        // A write that waits for its base value is ignored.
        guard !entry.isRelative, entry.isVisible || includesHidden else { return false }
        if let before, entry.id >= before { return false }
        return excluded.isEmpty || !excluded.contains(entry.id)
    }
}

extension WriteTree {
    /// A value during the descent through the layers above it: the value known so far, and the last write applied to
    /// it.
    struct Layered {
        /// Nil if it is not completely known.
        var base: Node?
        var after = WriteID(rawValue: .min)
    }

    /// Returns the value at a path, or nil if it is not completely known.
    ///
    /// - Parameter known: the server's value that covers the path, and the depth of the value's own path.
    func value(at path: Path, over known: (node: Node, depth: Int)?, _ filter: WriteFilter = WriteFilter()) -> Node? {
        var state = Layered()
        var point: Point? = root
        for depth in 0..<path.depth {
            if let known, known.depth == depth, state.base == nil { state.base = known.node }
            if let here = point { Self.settle(&state, here, filter) }
            state.base = state.base?.child(path[depth])
            point = point?.children[path[depth]]
        }
        if let known, known.depth == path.depth, state.base == nil { state.base = known.node }
        guard let here = point else { return state.base }
        return Self.combine(state, here, filter)
    }

    /// Returns the value at a point, including the writes at and below it; nil if it is not completely known.
    static func combine(_ state: Layered, _ point: Point, _ filter: WriteFilter) -> Node? {
        var state = state
        settle(&state, point, filter)
        guard let base = state.base else { return nil }
        return applyChildren(base, state.after, point, filter)
    }

    /// Applies the entries at the point itself to the state: the latest decides.
    private static func settle(_ state: inout Layered, _ point: Point, _ filter: WriteFilter) {
        guard point.newest > state.after else { return }
        for entry in point.entries.reversed() {
            guard entry.id > state.after else { return }
            guard filter.admits(entry) else { continue }
            state = Layered(base: entry.value, after: entry.id)
            return
        }
    }

    /// Whether any write below the point, later than the given one, sets a value.
    private static func holdsValues(_ point: Point, _ after: WriteID, _ filter: WriteFilter) -> Bool {
        point.children.contains { key, below in
            guard key != .priority, below.newest > after else { return false }
            return below.entries.contains { $0.id > after && !$0.value.isNull && filter.admits($0) }
                || holdsValues(below, after, filter)
        }
    }

    /// Applies the writes below the point to a value that is completely known.
    private static func applyChildren(
        _ base: Node, _ after: WriteID, _ point: Point, _ filter: WriteFilter
    ) -> Node {
        guard point.newest > after, !point.children.isEmpty else { return base }
        if let node = replayed(base, after, point, filter) { return node }
        // A leaf that had children for a moment is no longer a leaf, even if they have been removed again.
        var node = base.isLeaf && holdsValues(point, after, filter) ? Node.null : base
        let priority = base.priority
        var removed: [Key] = []
        for (key, below) in point.children where below.newest > after && key != .priority {
            let state = Layered(base: base.child(key), after: after)
            guard let child = combine(state, below, filter) else { continue }
            // A node that loses its last child loses its priority, so additions are applied first.
            if child.isNull { removed.append(key) } else { node = node.replacingChild(key, with: child) }
        }
        for key in removed { node = node.replacingChild(key, with: .null) }
        if base.isLeaf, node.isBranch, !priority.isNull { node = node.withPriority(priority) }
        if let below = point.children[.priority], below.newest > after, !node.isNull {
            let state = Layered(base: base.priority, after: after)
            if let priority = combine(state, below, filter) { node = node.withPriority(priority) }
        }
        return node
    }
}
