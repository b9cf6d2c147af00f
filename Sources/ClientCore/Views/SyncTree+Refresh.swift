import Tree

/// Updates the values that listeners see, and emits their events.
extension SyncTree {
    /// The updated whole value of a path, seen from a path below it.
    private struct Inherited {
        /// Nil if the whole value was not known before.
        let old: Node?
        let new: Node

        func child(_ key: Key) -> Inherited { Inherited(old: old?.child(key), new: new.child(key)) }
        var isUnchanged: Bool { old?.isIdentical(to: new) ?? false }
    }

    func refresh(_ touched: ChangedPaths) -> SyncEffects {
        var effects = SyncEffects()
        let touched = addingCounted(to: touched)
        if touched.isNothing { return effects }
        visit(root, touched, nil, &effects.events)
        return effects
    }

    /// Updates a view after a change of data that was sent for its query alone. Only this view may show a different
    /// value, unless `touched` contains more.
    func refresh(_ view: View, at place: Place, _ touched: ChangedPaths = .nothing) -> SyncEffects {
        var effects = SyncEffects()
        var touched = addingCounted(to: touched)
        if touched.isNothing {
            tell(view, at: place, local: [], own: [], &effects.events)
        } else {
            touched.insert(place.path)
            visit(root, touched, nil, &effects.events)
        }
        return effects
    }

    /// Adds the paths of increments that can be computed now.
    private func addingCounted(to touched: ChangedPaths) -> ChangedPaths {
        var touched = touched
        countWaiting(&touched)
        return touched
    }

    /// Computes waiting increments whose base value is known by now. Returns their paths.
    func countWaiting() -> ChangedPaths {
        var touched = ChangedPaths.nothing
        countWaiting(&touched)
        return touched
    }

    private func countWaiting(_ touched: inout ChangedPaths) {
        guard writes.hasWaiting else { return }
        for path in writes.countWaiting(over: known) {
            touched.insert(path.namesPriority ? path.parent ?? .root : path)
        }
    }

    /// Visits listeners at deeper paths first.
    private func visit(_ place: Place, _ touched: ChangedPaths, _ inherited: Inherited?, _ events: inout [DataEvent]) {
        if let inherited, inherited.isUnchanged { return }
        var passedOn = inherited
        var change = LocalChange(old: .null, keys: [])
        if !place.views.isEmpty {
            let old = place.isLocalComplete ? place.local : nil
            change = changeLocal(place, touched, inherited)
            passedOn = place.isLocalComplete ? Inherited(old: old, new: place.local) : nil
        }
        if !place.children.isEmpty, !(passedOn?.isUnchanged ?? false) {
            let below = touched.isWhole ? Array(place.children.keys) : touched.keys
            for key in below.count > 1 ? below.sorted() : below {
                guard let child = place.children[key], let part = touched[key] else { continue }
                visit(child, part, passedOn?.child(key), &events)
            }
        }
        guard !place.views.isEmpty else { return }
        let own = touched.isWhole ? nil : change.keys ?? touched.keys
        if let index = place.index, let keys = change.keys, place.isLocalComplete || own != nil {
            for (view, keys) in index.concerned(
                by: changes(of: keys, at: place, change.old), hasOwn: !place.isLocalComplete)
            {
                tell(view, at: place, local: keys, own: keys, &events)
            }
        } else {
            for view in place.views { tell(view, at: place, local: change.keys, own: own, &events) }
        }
    }

    private func tell(
        _ view: View, at place: Place, local: [Key]?, own: [Key]?, _ events: inout [DataEvent]
    ) {
        let count = events.count
        update(view, at: place, local: local, own: own, &events)
        mark(&events, from: count, of: view, at: place)
    }

    /// The change of the local value at a path.
    private struct LocalChange {
        let old: Node
        /// The only children that may differ; nil if any may.
        var keys: [Key]?
    }

    private func changeLocal(_ place: Place, _ touched: ChangedPaths, _ inherited: Inherited?) -> LocalChange {
        let wasComplete = place.isLocalComplete
        var change = LocalChange(old: place.local)
        change.keys = updateLocal(place, touched, inherited)
        let new = place.local
        // The path's own priority is not a child, and is visible to all listeners for all data of the path.
        let isSameKind = new.isBranch && change.old.isBranch && new.priority == change.old.priority
        if !new.isIdentical(to: change.old), !isSameKind {
            change.keys = nil
        } else if change.keys == nil, place.index != nil, wasComplete, place.isLocalComplete {
            // Compared once for all views.
            var keys: [Key] = []
            Node.forEachDifference(change.old, new) { if change.old.child($0) != new.child($0) { keys.append($0) } }
            change.keys = keys
        }
        place.madeOrders?.follow(new, change.keys)
        return change
    }

    /// Returns the details of the children's changes by which the index finds the views of a path.
    private func changes(of keys: [Key], at place: Place, _ old: Node) -> [ViewIndex.ChildChange] {
        let point = place.isLocalComplete ? nil : writes.point(at: place.path)
        let nothing = ServerSet()
        return keys.map { key in
            ViewIndex.ChildChange(
                key: key, old: old.child(key), new: place.local.child(key),
                written: Self.candidate(key, nothing, point))
        }
    }

    /// Updates the local value. Returns the only children that may differ; nil if any may.
    private func updateLocal(_ place: Place, _ touched: ChangedPaths, _ inherited: Inherited?) -> [Key]? {
        let wasComplete = place.isLocalComplete
        if let inherited {
            place.local = inherited.new
            place.isLocalComplete = true
            return wasComplete && !touched.isWhole ? touched.keys : nil
        }
        if touched.isWhole {
            readLocal(place)
            return nil
        }
        let keys = touched.keys
        if wasComplete, !writes.concern(place.path), let node = serverValue(at: place.path) {
            // Sharing the object keeps it in memory only once.
            place.local = node
        } else if wasComplete {
            place.local = spliced(place.local, at: place.path, touched)
        } else if place.hasDefault {
            for key in keys {
                guard let part = touched[key] else { continue }
                place.local = withKnownChild(place.local, at: place.path, key, part)
            }
        }
        return keys
    }

    /// Reads the local value of a path again.
    func readLocal(_ place: Place) {
        if let node = value(at: place.path) {
            place.local = node
            place.isLocalComplete = true
        } else {
            place.local = place.hasDefault ? knownChildren(of: place) : .null
            place.isLocalComplete = false
        }
    }

    /// Reads the local value again without a recorded change: the present views are updated as a whole.
    func readLocalAnew(_ place: Place) {
        readLocal(place)
        place.madeOrders?.follow(place.local, nil)
    }

    /// Returns the children whose whole values are known.
    private func knownChildren(of place: Place) -> Node {
        var keys = Set(place.children.lazy.filter { $0.value.known != nil }.map(\.key))
        if let point = writes.point(at: place.path) { keys.formUnion(point.children.keys) }
        keys.remove(.priority)
        return Node(children: keys.lazy.map { ($0, self.value(at: place.path.appending($0)) ?? .null) })
    }

    private func withKnownChild(_ node: Node, at path: Path, _ key: Key, _ touched: ChangedPaths) -> Node {
        let place = path.appending(key)
        let old = node.child(key)
        if !touched.isWhole, !old.isNull {
            return node.replacingChild(key, with: spliced(old, at: place, touched))
        }
        let new = value(at: place) ?? .null
        return new == old ? node : node.replacingChild(key, with: new)
    }

    /// Returns the whole value at a path, read again at the touched paths.
    private func spliced(_ node: Node, at path: Path, _ touched: ChangedPaths) -> Node {
        var result = node
        touched.forEachPath { place in result = spliced(result, at: path, place) }
        return result
    }

    private func spliced(_ node: Node, at path: Path, _ place: Path) -> Node {
        // If a leaf or nothing was or is on the way, the value below the writes decides.
        let places = [Self.firstWithoutChildren(node, above: place), firstWithPriority(node, at: path, above: place)]
        return reread(node, at: path, places.compactMap(\.self).min { $0.depth < $1.depth } ?? place)
    }

    private func reread(_ node: Node, at path: Path, _ place: Path) -> Node {
        let value = value(at: path.appending(place)) ?? .null
        if node[place] == value { return node }
        let result = node.replacing(place, with: value)
        // A node that has lost its last child may be a leaf again.
        guard value.isNull, let above = Self.firstWithoutChildren(result, above: place) else { return result }
        return reread(node, at: path, above)
    }

    /// Returns the topmost path on the way whose node has no children.
    private static func firstWithoutChildren(_ node: Node, above path: Path) -> Path? {
        var node = node
        for (depth, key) in path.keys.enumerated() {
            guard node.isBranch else { return path.prefix(depth) }
            node = node.child(key)
        }
        return nil
    }

    // MARK: Views

    /// Updates one view.
    ///
    /// - Parameters:
    ///   - local: the only children that may differ in the local value; nil if any may.
    ///   - own: the only children that may differ in the client's writes over the data sent for the query; nil if any
    ///     may.
    private func update(
        _ view: View, at place: Place, local: [Key]?, own written: [Key]?, _ events: inout [DataEvent]
    ) {
        updates += 1
        guard !place.isLocalComplete, let own = view.own else {
            let keys = view.usesOwn ? nil : local
            view.usesOwn = false
            view.ownChanges = []
            view.update(
                to: place.local, isComplete: place.isLocalComplete, keys: keys, source(of: view, at: place), &events)
            place.index?.settle(view, keys)
            return
        }
        let point = writes.point(at: place.path)
        if view.usesOwn, let written, let changed = view.ownChanges {
            let keys = changed.isEmpty ? written : Array(Set(written + changed))
            var node = view.input
            for key in keys { node = node.replacingChild(key, with: Self.candidate(key, own, point)) }
            view.ownChanges = []
            view.update(to: node, isComplete: own.isComplete, keys: keys, .own, &events)
            place.index?.settle(view, keys)
            return
        }
        view.usesOwn = true
        view.ownChanges = []
        var node = own.node
        for key in (point?.children ?? [:]).keys {
            node = node.replacingChild(key, with: Self.candidate(key, own, point))
        }
        view.update(to: node, isComplete: own.isComplete, keys: nil, .own, &events)
        place.index?.settle(view, nil)
    }

    /// Returns the value from which a view selects.
    func source(of view: View, at place: Place) -> View.Source {
        view.usesOwn ? .own : .local(place.orders)
    }

    /// Returns a child that a filtered query may select: one that the server has sent, or one written as a whole.
    private static func candidate(_ key: Key, _ own: ServerSet, _ point: WriteTree.Point?) -> Node {
        let sent = own.node.child(key)
        guard key != .priority else { return .null }
        guard let below = point?.children[key] else { return sent }
        let state = WriteTree.Layered(base: sent.isNull ? nil : sent)
        return WriteTree.combine(state, below, WriteFilter()) ?? .null
    }

    /// Updates one view for the first time.
    func start(_ view: View, at place: Place, _ events: inout [DataEvent]) {
        tell(view, at: place, local: nil, own: nil, &events)
    }

    // MARK: Reading

    /// Returns the local value of a path, or nil if it is not completely known.
    func value(at path: Path, _ filter: WriteFilter = WriteFilter()) -> Node? {
        writes.value(at: path, over: known(path), filter)
    }

    /// Returns the server's value that covers a path, and the depth of the value's own path.
    func known(_ path: Path) -> (node: Node, depth: Int)? {
        var place = root
        var depth = 0
        while true {
            if let known = place.known { return (known, depth) }
            guard depth < path.depth, let below = place.children[path[depth]] else { return nil }
            place = below
            depth += 1
        }
    }

    /// Returns the server's value of a path, or nil if it is not complete.
    func serverValue(at path: Path) -> Node? { known(path).map { $0.node[path.dropFirst($0.depth)] } }
}

/// Priorities above a changed path.
extension SyncTree {
    /// Returns the topmost path on the way that has a priority, or may have one, and at which the client's own writes
    /// lie over the server's data. Whether the node was without children for a moment, and so lost its priority,
    /// depends on all of these writes.
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

    /// Whether a write that is hidden by later ones may still decide about the priority of a node above.
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
