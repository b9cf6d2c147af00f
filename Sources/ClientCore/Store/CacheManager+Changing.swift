public import Tree
public import Wire

/// What the server said.
extension CacheManager {
    /// The server set a value at or below the place of a listen (the default query of the path for data without a tag).
    ///
    /// For a filtered query a null child says that it left what is selected, not that it is gone: it is then no longer
    /// among the query's children, and its data goes when the cache is pruned, unless somebody else has loaded it.
    public func applyServer(_ node: Node, at path: Path, of spec: QuerySpec) {
        guard isOpen(for: path) else { return }
        set(node, at: path, of: Self.normalized(spec))
        pruneIfNeeded()
    }

    /// Several places below the path, relative to it.
    public func applyServer(_ changes: [Change], at path: Path, of spec: QuerySpec) {
        guard isOpen(for: path) else { return }
        let spec = Self.normalized(spec)
        for change in changes { set(change.value, at: path.appending(change.path), of: spec) }
        pruneIfNeeded()
    }

    /// The server has answered a listen: this is what it has, whether it was sent or was known already. Where others listen to a
    /// part of it, the store has what any of them was sent last, and that may have been something else for a moment.
    public func confirm(_ node: Node, of spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), isShared(spec) else { return }
        confirmed[spec] = departures
        if spec.loadsAllData {
            if store.serverData(at: spec.path) != node { store.setServerData(node, at: spec.path) }
            return
        }
        for key in node.childKeys {
            let place = spec.path.appending(key)
            if store.serverData(at: place) != node.child(key) { store.setServerData(node.child(key), at: place) }
        }
    }

    /// The client has more of a query than the store does: what the server answers is to be compared.
    func doubt(_ spec: QuerySpec) { confirmed[Self.normalized(spec)] = nil }

    /// Whether another listen may have brought some of what a query selects: one that is there, or one that has ended since the
    /// query was confirmed last.
    private func isShared(_ spec: QuerySpec) -> Bool {
        if spec.loadsAllData, !tracked.activeFilters(above: spec.path).isEmpty { return true }
        // It may also have been told by the answers to writes, which only those are given who listen.
        if confirmed[spec] != departures { return true }
        return !spec.loadsAllData && tracked.overlapping(spec.path).contains { $0.isActive && $0.spec != spec }
    }

    /// The server was asked for a query that nobody listens to, and has answered.
    public func keep(_ node: Node, of spec: QuerySpec, _ mark: LogMark?) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), tracked[spec]?.isActive != true, !tracked.isInActiveDefault(spec.path) else {
            return
        }
        _ = activate(spec)
        set(node, at: spec.path, of: spec)
        complete(spec)
        note(mark, of: spec)
        deactivate(spec)
    }

    private func set(_ node: Node, at path: Path, of spec: QuerySpec) {
        if path == spec.path, tracked[spec]?.isActive == true { confirmed[spec] = departures }
        if spec.loadsAllData {
            store.setServerData(node, at: path)
            return completeDefaults(below: path)
        }
        guard let query = tracked[spec] else { return }
        let depth = path.depth - spec.path.depth
        if depth == 0 {
            for child in node.childKeys { store.setServerData(node.child(child), at: path.appending(child)) }
            return setKeys(Set(node.childKeys), of: query)
        }
        let key = path[spec.path.depth]
        guard key != .priority else { return }
        if depth == 1 {
            updateKey(key, isLoaded: !node.isNull, of: query)
            if node.isNull { return }
        }
        store.setServerData(node, at: path)
        completeDefaults(below: path)
    }
}
