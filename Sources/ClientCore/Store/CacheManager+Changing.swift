public import Tree
public import Wire

/// Data from the server.
extension CacheManager {
    /// Applies a value that the server set at or below the path of a listen (the default query of the path for data
    /// without a tag).
    ///
    /// For a filtered query, a null child means that the child left the selection, and not that it was removed. It is
    /// then no longer among the query's children, and its data is removed when the cache is pruned, unless another
    /// query has loaded it.
    public func applyServer(_ node: Node, at path: Path, of spec: QuerySpec) {
        guard isOpen(for: path) else { return }
        set(node, at: path, of: Self.normalized(spec))
        pruneIfNeeded()
    }

    /// Applies several values below the path, with paths relative to it.
    public func applyServer(_ changes: [Change], at path: Path, of spec: QuerySpec) {
        guard isOpen(for: path) else { return }
        let spec = Self.normalized(spec)
        for change in changes { set(change.value, at: path.appending(change.path), of: spec) }
        pruneIfNeeded()
    }

    /// Stores the server's data of an answered listen, whether it was sent or was already known. If other listens
    /// include a part of it, the store has the data that any of them was sent last, which may temporarily have been
    /// different.
    public func confirm(_ node: Node, of spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), isShared(spec) else { return }
        confirmed[spec] = departures
        if spec.loadsAllData {
            if store.serverData(at: spec.path) != node { store.setServerData(node, at: spec.path) }
            return
        }
        for key in node.childKeys {
            let childPath = spec.path.appending(key)
            if store.serverData(at: childPath) != node.child(key) {
                store.setServerData(node.child(key), at: childPath)
            }
        }
    }

    /// Marks a query for comparison with the server's answer, because the client has more of its data than the store.
    func doubt(_ spec: QuerySpec) { confirmed[Self.normalized(spec)] = nil }

    /// Whether another listen may have brought a part of a query's selection: a present one, or one that has ended
    /// since the query was last confirmed.
    private func isShared(_ spec: QuerySpec) -> Bool {
        if spec.loadsAllData, !tracked.activeFilters(above: spec.path).isEmpty { return true }
        // The query's data may also come from the answers to writes, which only listeners receive.
        if confirmed[spec] != departures { return true }
        return !spec.loadsAllData && tracked.overlapping(spec.path).contains { $0.isActive && $0.spec != spec }
    }

    /// Stores the server's answer for a query without listeners.
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
