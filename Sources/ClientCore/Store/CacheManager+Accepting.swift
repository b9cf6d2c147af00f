public import Tree

/// The client's writes that the server has accepted.
extension CacheManager {
    /// Records that a listen for a query is being sent. Until the server answers it, the client's accepted writes count
    /// as its data.
    func asked(_ spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), tracked[spec]?.isActive == true else { return }
        waiting[spec] = []
    }

    /// Records that the server has begun to answer a query. Its answer is based on the data that the client had when
    /// the listen was sent, so that data is restored first.
    ///
    /// For a filtered query, and for data of which a filtered query has been sent more, the final data of the answer is
    /// compared with the store (`confirm`).
    ///
    /// - Parameter had: nil if the data was not complete, so that the answer contains everything.
    func answered(_ spec: QuerySpec, from had: Node?) {
        let spec = Self.normalized(spec)
        guard let paths = waiting[spec], isOpen(for: spec.path) else { return }
        defer { waiting[spec] = nil }
        guard !paths.isEmpty else { return }
        guard spec.loadsAllData else { return doubt(spec) }
        guard let had else { return }
        for path in paths {
            let location = path.contains(spec.path) ? spec.path : path
            if isAnswered(location) { continue }
            store.setServerData(had[location.relative(to: spec.path)], at: location)
        }
    }

    /// Records that the server accepted a write. `content`: with estimated server values.
    ///
    /// For a listen that has been answered, the server's own data came before. For other paths, the write becomes the
    /// known data of its path, so that it can be read offline.
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
        guard !isAnswered(path) else { return }
        noteWaiting(node, at: path)
        if path.namesPriority || node.hasIncrement {
            // Priorities and increments depend on the present data.
            guard let location = path.namesPriority ? path.parent : path, tracked.completeDefault(over: location) != nil
            else {
                return
            }
            let node = keepingListened(node.resolved(existing: store.serverData(at: path), timestamp: 0), at: path)
            forgetMarks(at: path)
            return store.setServerData(node, at: path)
        }
        let node = keepingListened(node, at: path)
        // The write's server values are estimates.
        forgetMarks(at: path)
        store.setServerData(node, at: path)
        // A listener above the path receives it by the server's answer.
        if tracked.topActiveDefault(over: path) == nil { trackAsComplete(path) }
        completeDefaults(below: path)
    }

    /// Records where the store differs from the data with which the waiting queries were sent.
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

    /// Whether the server itself sends the changes at the path.
    private func isAnswered(_ path: Path) -> Bool {
        if let top = tracked.topActiveDefault(over: path), waiting[top.spec] == nil { return true }
        return tracked.activeFilters(above: path).contains { query in
            isAnswered(query) && keys(of: query).contains(path[query.spec.path.depth])
        }
    }

    /// Whether the server has answered the listen that includes an active query's data.
    private func isAnswered(_ query: TrackedQuery) -> Bool {
        waiting[(tracked.topActiveDefault(over: query.spec.path) ?? query).spec] == nil
    }

    /// Returns the write with the server's own values at all paths at or below it that have an answered listen. Those
    /// values may be newer than the write: if the answer to the write was lost with a connection, the write was
    /// executed before the listens were sent again, and is not executed twice.
    private func keepingListened(_ node: Node, at path: Path) -> Node {
        var node = node
        for query in tracked.all(below: path) where query.isActive && isAnswered(query) {
            let location = query.spec.path
            let listened = query.spec.loadsAllData ? [location] : keys(of: query).map(location.appending)
            for location in listened {
                node = node.replacing(location.relative(to: path), with: store.serverData(at: location))
            }
        }
        return node
    }
}
