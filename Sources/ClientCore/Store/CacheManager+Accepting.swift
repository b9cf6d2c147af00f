public import Tree

/// The client's writes that the server has taken.
extension CacheManager {
    /// The server is being asked for a query. Until it answers, the client's accepted writes count as what is there.
    func asked(_ spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), tracked[spec]?.isActive == true else { return }
        waiting[spec] = []
    }

    /// The server has begun to answer, from what the client had when it asked: that is what the answer is laid over.
    ///
    /// Of a filtered query, and where such a query has been told more, what there is at the end of the answer is compared with the store
    /// (`confirm`).
    ///
    /// - Parameter had: nil where that was not complete, so that the answer is all there is.
    func answered(_ spec: QuerySpec, from had: Node?) {
        let spec = Self.normalized(spec)
        guard let paths = waiting[spec], isOpen(for: spec.path) else { return }
        defer { waiting[spec] = nil }
        guard !paths.isEmpty else { return }
        guard spec.loadsAllData else { return doubt(spec) }
        guard let had else { return }
        for path in paths {
            let place = path.contains(spec.path) ? spec.path : path
            if isTold(place) { continue }
            store.setServerData(had[place.relative(to: spec.path)], at: place)
        }
    }

    /// The server took a write. `content`: with its server values estimated.
    ///
    /// Where somebody listens who has been answered, the server's own data came before. Elsewhere the write becomes what is known of
    /// its place, so that it can be read offline.
    public func acknowledge(_ content: PendingWrite.Content, at path: Path) {
        guard isOpen(for: path) else { return }
        switch content {
        case .overwrite(let node): take(node, at: path)
        case .merge(let changes):
            for change in changes { take(change.value, at: path.appending(change.path)) }
        }
        pruneIfNeeded()
    }

    private func take(_ node: Node, at path: Path) {
        guard !isTold(path) else { return }
        noteWaiting(node, at: path)
        if path.namesPriority || node.hasIncrement {
            // They depend on what is there.
            guard let place = path.namesPriority ? path.parent : path, tracked.completeDefault(over: place) != nil
            else {
                return
            }
            let node = keepingListened(node.resolved(existing: store.serverData(at: path), timestamp: 0), at: path)
            forgetMarks(at: path)
            return store.setServerData(node, at: path)
        }
        let node = keepingListened(node, at: path)
        // Its server values are estimates.
        forgetMarks(at: path)
        store.setServerData(node, at: path)
        // Whoever listens above it is to have it by the answer.
        if tracked.topActiveDefault(over: path) == nil { trackAsComplete(path) }
        completeDefaults(below: path)
    }

    /// Remembers where the store differs from what the queries that wait have asked with.
    private func noteWaiting(_ node: Node, at path: Path) {
        guard !waiting.isEmpty else { return }
        for query in tracked.overlapping(path) where query.isActive && waiting[query.spec] != nil {
            waiting[query.spec]?.insert(path)
            let spec = query.spec
            guard !spec.loadsAllData, path.depth == spec.path.depth + 1, let key = path.last, key != .priority else {
                continue
            }
            if !node.isNull, spec.query.admits(key, node) { updateKey(key, isLoaded: true, of: query) }
        }
    }

    /// Whether the server itself tells of the path.
    private func isTold(_ path: Path) -> Bool {
        if let top = tracked.topActiveDefault(over: path), waiting[top.spec] == nil { return true }
        return tracked.activeFilters(above: path).contains { query in
            isTold(query) && keys(of: query).contains(path[query.spec.path.depth])
        }
    }

    /// Whether the server has answered the listen that brings an active query's data.
    private func isTold(_ query: TrackedQuery) -> Bool {
        waiting[(tracked.topActiveDefault(over: query.spec.path) ?? query).spec] == nil
    }

    /// What somebody listens to at or below the path, and was answered, has the server's own values. They may be newer than the write: where its
    /// answer was lost with a connection, it was done before what the listens were sent since, and is not done again.
    private func keepingListened(_ node: Node, at path: Path) -> Node {
        var node = node
        for query in tracked.all(below: path) where query.isActive && isTold(query) {
            let place = query.spec.path
            let listened = query.spec.loadsAllData ? [place] : keys(of: query).map(place.appending)
            for place in listened { node = node.replacing(place.relative(to: path), with: store.serverData(at: place)) }
        }
        return node
    }
}
