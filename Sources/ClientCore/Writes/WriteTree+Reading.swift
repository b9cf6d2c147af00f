import Tree

/// Which writes a reader sees.
struct WriteFilter {
    var excluded: Set<WriteID> = []
    /// Whether transactions that are not applied locally count.
    var includesHidden = false

    func admits(_ entry: WriteTree.Entry) -> Bool {
        (entry.isVisible || includesHidden) && (excluded.isEmpty || !excluded.contains(entry.id))
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
            if let here = point { Self.settle(&state, here, before: nil, filter) }
            state.base = state.base?.child(path[depth])
            point = point?.children[path[depth]]
        }
        if let known, known.depth == path.depth, state.base == nil { state.base = known.node }
        guard let here = point else { return state.base }
        return Self.combine(state, here, before: nil, filter)
    }

    /// What lies at a point, seen through the writes at and below it; nil where it isn't completely known.
    static func combine(_ state: Layered, _ point: Point, before: WriteID?, _ filter: WriteFilter) -> Node? {
        var state = state
        settle(&state, point, before: before, filter)
        guard let base = state.base else { return nil }
        return applyChildren(base, state.after, point, before: before, filter)
    }

    /// Lays the entries at the point itself over the state.
    private static func settle(_ state: inout Layered, _ point: Point, before: WriteID?, _ filter: WriteFilter) {
        guard !point.entries.isEmpty, point.newest > state.after else { return }
        var first = point.entries.count
        while first > 0, point.entries[first - 1].id > state.after {
            first -= 1
            let entry = point.entries[first]
            if !entry.isRelative, filter.admits(entry), before.map({ entry.id < $0 }) ?? true { break }
        }
        for entry in point.entries[first...] {
            guard entry.id > state.after, filter.admits(entry), before.map({ entry.id < $0 }) ?? true else { continue }
            if entry.isRelative {
                // What it counts from is not known: it has to wait.
                guard let base = state.base else { continue }
                let existing = applyChildren(base, state.after, point, before: entry.id, filter)
                state.base = entry.value.resolved(existing: existing, timestamp: 0)
            } else {
                state.base = entry.value
            }
            state.after = entry.id
        }
    }

    /// Lays the writes below the point over a value that is completely known.
    private static func applyChildren(
        _ base: Node, _ after: WriteID, _ point: Point, before: WriteID?, _ filter: WriteFilter
    ) -> Node {
        guard point.newest > after, !point.children.isEmpty else { return base }
        var node = base
        var removed: [Key] = []
        for (key, below) in point.children where below.newest > after && key != .priority {
            let state = Layered(base: base.child(key), after: after)
            guard let child = combine(state, below, before: before, filter) else { continue }
            // A node that loses its last child loses its priority: what is added comes first.
            if child.isNull { removed.append(key) } else { node = node.replacingChild(key, with: child) }
        }
        for key in removed { node = node.replacingChild(key, with: .null) }
        if let below = point.children[.priority], below.newest > after, !node.isNull {
            let state = Layered(base: base.priority, after: after)
            if let priority = combine(state, below, before: before, filter) { node = node.withPriority(priority) }
        }
        return node
    }
}
