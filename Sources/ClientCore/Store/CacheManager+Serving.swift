internal import Tree
internal import Wire

/// What the store has for a query.
extension CacheManager {
    /// What is stored for a query, without listening to it:
    /// - all of it, where a default query at the path or above it is complete;
    /// - the children that the query itself, or a wider one in the same order, has loaded completely, and later than that;
    /// - else the children that are known, by any query at the path or by default queries of their own: not complete.
    public func cached(_ spec: QuerySpec) -> CachedQuery {
        guard isOpen(for: spec.path) else { return .nothing }
        let spec = Self.normalized(spec)
        let here = tracked.queries(at: spec.path)
        let query = spec.loadsAllData ? nil : server(of: spec.query, among: here)
        if let whole = tracked.completeDefault(over: spec.path), query.map({ !$0.isFresher(than: whole) }) ?? true {
            let node = store.serverData(at: spec.path)
            return read(
                CachedQuery(node: node, isComplete: true, knownChildren: nil, mark: mark(of: whole, for: spec)))
        }
        if let query {
            let keys = keys(of: query)
            let node = store.serverData(at: spec.path, children: keys)
            return read(
                CachedQuery(node: node, isComplete: true, knownChildren: keys, mark: mark(of: query, for: spec)))
        }
        var known = Set(tracked.completeChildren(of: spec.path))
        for query in here where !query.spec.loadsAllData && spec.query.mayShareChildren(with: query.spec.query) {
            known.formUnion(keys(of: query))
        }
        guard !known.isEmpty else { return .nothing }
        let node = store.serverData(at: spec.path, children: known)
        return read(CachedQuery(node: node, isComplete: false, knownChildren: known))
    }

    /// The server lets only the query itself go on where it was.
    private func mark(of query: TrackedQuery, for spec: QuerySpec) -> LogMark? {
        query.spec == spec ? query.mark : query.mark.map { LogMark(seq: $0.seq) }
    }

    /// The query itself first: its children are the latest.
    private func server(of query: Query, among candidates: [TrackedQuery]) -> TrackedQuery? {
        let complete = candidates.filter { $0.isComplete && !$0.spec.loadsAllData }
        if let same = complete.first(where: { $0.spec.query == query }) { return same }
        // An active one is brought up to date all the time.
        let wider = complete.filter { query.isServed(by: $0.spec.query, thatHasLoaded: keys(of: $0).count) }
        return wider.max { $1.isFresher(than: $0) }
    }

    /// A reading during which the store lost its data says nothing.
    private func read(_ found: CachedQuery) -> CachedQuery {
        let known = tracked
        guard store.isUsable, isOpen(for: .root), known.isSame(as: tracked) else { return .nothing }
        return found
    }
}

extension TrackedQuery {
    /// Whether the server told of it later: one that is listened to is told all the time.
    fileprivate func isFresher(than other: TrackedQuery) -> Bool {
        isActive == other.isActive ? !isActive && lastUse > other.lastUse : isActive
    }
}
