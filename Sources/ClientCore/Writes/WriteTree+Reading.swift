import Tree

/// Which writes a reader sees.
struct WriteFilter {
    var excluded: Set<WriteID> = []
    /// Only writes with lesser numbers count.
    var before: WriteID?
    /// Whether transactions that are not applied locally count.
    var includesHidden = false

    func admits(_ entry: WriteTree.Entry) -> Bool {
        // What has to wait for its base is as if it weren't there.
        guard !entry.isRelative, entry.isVisible || includesHidden else { return false }
        if let before, entry.id >= before { return false }
        return excluded.isEmpty || !excluded.contains(entry.id)
    }
}

extension WriteTree {
    /// A value while the layers above it are gone through: what is known of it so far, and up to which write.
    struct Layered {
        /// Nil where it isn't completely known.
        var base: Node?
        var after = WriteID(rawValue: .min)
    }

    /// What a place looks like, or nil where it isn't completely known.
    ///
    /// - Parameter known: what the server has sent that covers the place: its value and the depth of its path.
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

    /// What lies at a point, seen through the writes at and below it; nil where it isn't completely known.
    static func combine(_ state: Layered, _ point: Point, _ filter: WriteFilter) -> Node? {
        var state = state
        settle(&state, point, filter)
        guard let base = state.base else { return nil }
        return applyChildren(base, state.after, point, filter)
    }

    /// Lays the entries at the point itself over the state: the latest decides.
    private static func settle(_ state: inout Layered, _ point: Point, _ filter: WriteFilter) {
        guard point.newest > state.after else { return }
        for entry in point.entries.reversed() {
            guard entry.id > state.after else { return }
            guard filter.admits(entry) else { continue }
            state = Layered(base: entry.value, after: entry.id)
            return
        }
    }

    /// Whether any write below the point, later than the given one, writes something.
    private static func holdsValues(_ point: Point, _ after: WriteID, _ filter: WriteFilter) -> Bool {
        point.children.contains { key, below in
            guard key != .priority, below.newest > after else { return false }
            return below.entries.contains { $0.id > after && !$0.value.isNull && filter.admits($0) }
                || holdsValues(below, after, filter)
        }
    }

    /// Lays the writes below the point over a value that is completely known.
    private static func applyChildren(
        _ base: Node, _ after: WriteID, _ point: Point, _ filter: WriteFilter
    ) -> Node {
        guard point.newest > after, !point.children.isEmpty else { return base }
        if let node = replayed(base, after, point, filter) { return node }
        // A leaf that had children for a moment is none any more, even when they are gone again.
        var node = base.isLeaf && holdsValues(point, after, filter) ? Node.null : base
        let priority = base.priority
        var removed: [Key] = []
        for (key, below) in point.children where below.newest > after && key != .priority {
            let state = Layered(base: base.child(key), after: after)
            guard let child = combine(state, below, filter) else { continue }
            // A node that loses its last child loses its priority: what is added comes first.
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
