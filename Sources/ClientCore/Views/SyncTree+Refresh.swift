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
    func refresh(_ view: View, at syncPoint: SyncPoint, _ touched: ChangedPaths = .nothing) -> SyncEffects {
        var effects = SyncEffects()
        var touched = addingCounted(to: touched)
        if touched.isNothing {
            emit(view, at: syncPoint, local: [], own: [], &effects.events)
        } else {
            touched.insert(syncPoint.path)
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
    private func visit(
        _ syncPoint: SyncPoint, _ touched: ChangedPaths, _ inherited: Inherited?, _ events: inout [DataEvent]
    ) {
        if let inherited, inherited.isUnchanged { return }
        var passedOn = inherited
        var change = LocalChange(old: .null, keys: [])
        if !syncPoint.views.isEmpty {
            let old = syncPoint.isLocalComplete ? syncPoint.local : nil
            change = changeLocal(syncPoint, touched, inherited)
            passedOn = syncPoint.isLocalComplete ? Inherited(old: old, new: syncPoint.local) : nil
        }
        if !syncPoint.children.isEmpty, !(passedOn?.isUnchanged ?? false) {
            let below = touched.isWhole ? Array(syncPoint.children.keys) : touched.keys
            for key in below.count > 1 ? below.sorted() : below {
                guard let child = syncPoint.children[key], let part = touched[key] else { continue }
                visit(child, part, passedOn?.child(key), &events)
            }
        }
        guard !syncPoint.views.isEmpty else { return }
        let own = touched.isWhole ? nil : change.keys ?? touched.keys
        if let index = syncPoint.index, let keys = change.keys, syncPoint.isLocalComplete || own != nil {
            for (view, keys) in index.concerned(
                by: changes(of: keys, at: syncPoint, change.old), hasOwn: !syncPoint.isLocalComplete)
            {
                emit(view, at: syncPoint, local: keys, own: keys, &events)
            }
        } else {
            for view in syncPoint.views { emit(view, at: syncPoint, local: change.keys, own: own, &events) }
        }
    }

    private func emit(
        _ view: View, at syncPoint: SyncPoint, local: [Key]?, own: [Key]?, _ events: inout [DataEvent]
    ) {
        let count = events.count
        update(view, at: syncPoint, local: local, own: own, &events)
        mark(&events, from: count, of: view, at: syncPoint)
    }

    /// The change of the local value at a path.
    private struct LocalChange {
        let old: Node
        /// The only children that may differ; nil if any may.
        var keys: [Key]?
    }

    private func changeLocal(_ syncPoint: SyncPoint, _ touched: ChangedPaths, _ inherited: Inherited?) -> LocalChange {
        let wasComplete = syncPoint.isLocalComplete
        var change = LocalChange(old: syncPoint.local)
        change.keys = updateLocal(syncPoint, touched, inherited)
        let new = syncPoint.local
        // The path's own priority is not a child, and is visible to all listeners for all data of the path.
        let isSameKind = new.isBranch && change.old.isBranch && new.priority == change.old.priority
        if !new.isIdentical(to: change.old), !isSameKind {
            change.keys = nil
        } else if change.keys == nil, syncPoint.index != nil, wasComplete, syncPoint.isLocalComplete {
            // Compared once for all views.
            var keys: [Key] = []
            Node.forEachDifference(change.old, new) { if change.old.child($0) != new.child($0) { keys.append($0) } }
            change.keys = keys
        }
        syncPoint.madeOrders?.follow(new, change.keys)
        return change
    }

    /// Returns the details of the children's changes by which the index finds the views of a path.
    private func changes(of keys: [Key], at syncPoint: SyncPoint, _ old: Node) -> [ViewIndex.ChildChange] {
        let point = syncPoint.isLocalComplete ? nil : writes.point(at: syncPoint.path)
        let nothing = ServerSet()
        return keys.map { key in
            ViewIndex.ChildChange(
                key: key, old: old.child(key), new: syncPoint.local.child(key),
                written: Self.candidate(key, nothing, point))
        }
    }

    /// Updates the local value. Returns the only children that may differ; nil if any may.
    private func updateLocal(_ syncPoint: SyncPoint, _ touched: ChangedPaths, _ inherited: Inherited?) -> [Key]? {
        let wasComplete = syncPoint.isLocalComplete
        if let inherited {
            syncPoint.local = inherited.new
            syncPoint.isLocalComplete = true
            return wasComplete && !touched.isWhole ? touched.keys : nil
        }
        if touched.isWhole {
            readLocal(syncPoint)
            return nil
        }
        let keys = touched.keys
        if wasComplete, !writes.concern(syncPoint.path), let node = serverValue(at: syncPoint.path) {
            // Sharing the object keeps it in memory only once.
            syncPoint.local = node
        } else if wasComplete {
            syncPoint.local = spliced(syncPoint.local, at: syncPoint.path, touched)
        } else if syncPoint.hasDefault {
            for key in keys {
                guard let part = touched[key] else { continue }
                syncPoint.local = withKnownChild(syncPoint.local, at: syncPoint.path, key, part)
            }
        }
        return keys
    }

    /// Reads the local value of a path again.
    func readLocal(_ syncPoint: SyncPoint) {
        if let node = value(at: syncPoint.path) {
            syncPoint.local = node
            syncPoint.isLocalComplete = true
        } else {
            syncPoint.local = syncPoint.hasDefault ? knownChildren(of: syncPoint) : .null
            syncPoint.isLocalComplete = false
        }
    }

    /// Reads the local value again without a recorded change: the present views are updated as a whole.
    func rereadLocal(_ syncPoint: SyncPoint) {
        readLocal(syncPoint)
        syncPoint.madeOrders?.follow(syncPoint.local, nil)
    }

    /// Returns the children whose whole values are known.
    private func knownChildren(of syncPoint: SyncPoint) -> Node {
        var keys = Set(syncPoint.children.lazy.filter { $0.value.known != nil }.map(\.key))
        if let point = writes.point(at: syncPoint.path) { keys.formUnion(point.children.keys) }
        keys.remove(.priority)
        return Node(children: keys.lazy.map { ($0, self.value(at: syncPoint.path.appending($0)) ?? .null) })
    }

    private func withKnownChild(_ node: Node, at path: Path, _ key: Key, _ touched: ChangedPaths) -> Node {
        let childPath = path.appending(key)
        let old = node.child(key)
        if !touched.isWhole, !old.isNull {
            return node.replacingChild(key, with: spliced(old, at: childPath, touched))
        }
        let new = value(at: childPath) ?? .null
        return new == old ? node : node.replacingChild(key, with: new)
    }

    /// Returns the whole value at a path, read again at the touched paths.
    private func spliced(_ node: Node, at path: Path, _ touched: ChangedPaths) -> Node {
        var result = node
        touched.forEachPath { changed in result = spliced(result, at: path, changed) }
        return result
    }

    private func spliced(_ node: Node, at path: Path, _ relative: Path) -> Node {
        // If a leaf or nothing was or is on the way, the value below the writes decides.
        let candidates = [
            Self.firstWithoutChildren(node, above: relative), firstWithPriority(node, at: path, above: relative),
        ]
        return reread(node, at: path, candidates.compactMap(\.self).min { $0.depth < $1.depth } ?? relative)
    }

    private func reread(_ node: Node, at path: Path, _ relative: Path) -> Node {
        let value = value(at: path.appending(relative)) ?? .null
        if node[relative] == value { return node }
        let result = node.replacing(relative, with: value)
        // A node that has lost its last child may be a leaf again.
        guard value.isNull, let above = Self.firstWithoutChildren(result, above: relative) else { return result }
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
        _ view: View, at syncPoint: SyncPoint, local: [Key]?, own written: [Key]?, _ events: inout [DataEvent]
    ) {
        updates += 1
        guard !syncPoint.isLocalComplete, let own = view.own else {
            let keys = view.usesOwn ? nil : local
            view.usesOwn = false
            view.ownChanges = []
            view.update(
                to: syncPoint.local, isComplete: syncPoint.isLocalComplete, keys: keys, source(of: view, at: syncPoint),
                &events)
            syncPoint.index?.settle(view, keys)
            return
        }
        let point = writes.point(at: syncPoint.path)
        if view.usesOwn, let written, let changed = view.ownChanges {
            let keys = changed.isEmpty ? written : Array(Set(written + changed))
            var node = view.input
            for key in keys { node = node.replacingChild(key, with: Self.candidate(key, own, point)) }
            view.ownChanges = []
            view.update(to: node, isComplete: own.isComplete, keys: keys, .own, &events)
            syncPoint.index?.settle(view, keys)
            return
        }
        view.usesOwn = true
        view.ownChanges = []
        var node = own.node
        for key in (point?.children ?? [:]).keys {
            node = node.replacingChild(key, with: Self.candidate(key, own, point))
        }
        view.update(to: node, isComplete: own.isComplete, keys: nil, .own, &events)
        syncPoint.index?.settle(view, nil)
    }

    /// Returns the value from which a view selects.
    func source(of view: View, at syncPoint: SyncPoint) -> View.Source {
        view.usesOwn ? .own : .local(syncPoint.orders)
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
    func start(_ view: View, at syncPoint: SyncPoint, _ events: inout [DataEvent]) {
        emit(view, at: syncPoint, local: nil, own: nil, &events)
    }

    // MARK: Reading

    /// Returns the local value of a path, or nil if it is not completely known.
    func value(at path: Path, _ filter: WriteFilter = WriteFilter()) -> Node? {
        writes.value(at: path, over: known(path), filter)
    }

    /// Returns the server's value that covers a path, and the depth of the value's own path.
    func known(_ path: Path) -> (node: Node, depth: Int)? {
        var syncPoint = root
        var depth = 0
        while true {
            if let known = syncPoint.known { return (known, depth) }
            guard depth < path.depth, let below = syncPoint.children[path[depth]] else { return nil }
            syncPoint = below
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
    func firstWithPriority(_ node: Node, at path: Path, above relative: Path) -> Path? {
        guard var point = writes.point(at: path) else { return nil }
        var node = node
        var sent = serverValue(at: path)
        for (depth, key) in relative.keys.enumerated() {
            let isSent = sent.map { !$0.priority.isNull } ?? false
            if isSent || !node.priority.isNull || point.children[.priority] != nil { return relative.prefix(depth) }
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
