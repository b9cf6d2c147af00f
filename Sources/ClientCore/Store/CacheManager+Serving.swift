public import Tree
public import Wire

/// The store's data for a query.
extension CacheManager {
    /// Returns the stored data for a query, without listening to it:
    /// - all of it, if a default query at the path or above it is complete;
    /// - the children that the query itself, or a wider one in the same order, has loaded completely and more recently
    ///   than that;
    /// - otherwise the children that are known from any query at the path or from default queries of their own:
    ///   incomplete.
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

    /// The server permits only the query itself to resume.
    private func mark(of query: TrackedQuery, for spec: QuerySpec) -> LogMark? {
        query.spec == spec ? query.mark : query.mark.map { LogMark(seq: $0.seq) }
    }

    /// Prefers the query itself, because its children are the latest.
    private func server(of query: Query, among candidates: [TrackedQuery]) -> TrackedQuery? {
        let complete = candidates.filter { $0.isComplete && !$0.spec.loadsAllData }
        if let same = complete.first(where: { $0.spec.query == query }) { return same }
        // An active query is updated all the time.
        let wider = complete.filter { query.isServed(by: $0.spec.query, thatHasLoaded: keys(of: $0).count) }
        return wider.max { $1.isFresher(than: $0) }
    }

    /// Returns the data that was read, or nothing if the store lost its data during the read.
    private func read(_ found: CachedQuery) -> CachedQuery {
        let known = tracked
        guard store.isUsable, isOpen(for: .root), known.isSame(as: tracked) else { return .nothing }
        return found
    }
}

extension TrackedQuery {
    /// Whether the server sent its data later: an active query is sent changes all the time.
    fileprivate func isFresher(than other: TrackedQuery) -> Bool {
        isActive == other.isActive ? !isActive && lastUse > other.lastUse : isActive
    }
}

/// The store's data for a query.
public struct CachedQuery: Sendable, Equatable {
    /// The known server data at the query's path. It may contain children outside the query's selection: filter it.
    public let node: Node
    /// Whether `node` contains everything that the query selects, so that a value event may be raised.
    public let isComplete: Bool
    /// The children of the path that are completely known; nil if everything at the path is.
    public let knownChildren: Set<Key>?

    /// The log position up to which `node` is known to be complete, or nil if unknown.
    public let mark: LogMark?

    public init(node: Node, isComplete: Bool, knownChildren: Set<Key>?, mark: LogMark? = nil) {
        self.mark = mark
        self.node = node
        self.isComplete = isComplete
        self.knownChildren = knownChildren
    }

    /// No known data.
    public static let nothing = CachedQuery(node: .null, isComplete: false, knownChildren: [])
}

extension Query {
    /// Whether a child may be within the bounds of both queries. Children that one query has loaded are useless to
    /// another query of the same order if their bounds do not overlap.
    func mayShareChildren(with other: Query) -> Bool {
        guard index == other.index else { return true }
        return !isLater(start, than: other.end) && !isLater(other.start, than: end)
    }

    /// Whether everything that this query selects is always among the children that another one has loaded: the order
    /// is the same, the bounds lie within the other's, and the other's limit excludes none of them.
    ///
    /// - Parameter count: the number of children that the other has loaded. If they are fewer than its limit, they are
    ///   all children within its bounds.
    func isServed(by other: Query, thatHasLoaded count: @autoclosure () -> Int) -> Bool {
        guard index == other.index else { return false }
        let startsWithin = other.start == nil || start == other.start || isLater(start, than: other.start)
        let endsWithin = other.end == nil || end == other.end || isLater(other.end, than: end)
        guard startsWithin, endsWithin else { return false }
        switch other.limit {
        case nil: return true
        case .first(let most) where count() < most, .last(let most) where count() < most: return true
        case .first(let most):
            guard case .first(let wanted) = limit else { return false }
            return wanted <= most && start == other.start
        case .last(let most):
            guard case .last(let wanted) = limit else { return false }
            return wanted <= most && end == other.end
        }
    }

    /// Whether a bound's value is strictly after another's. Returns false for equal values with different keys, which
    /// are rare.
    private func isLater(_ bound: Bound?, than other: Bound?) -> Bool {
        guard let bound, let other else { return false }
        if index == .key {
            guard case .string(let first) = bound.value.node, case .string(let second) = other.value.node else {
                return false
            }
            // The names of the least and the greatest key are not actual keys.
            guard first.utf8.first != UInt8(ascii: "["), second.utf8.first != UInt8(ascii: "[") else { return false }
            return Key(second) < Key(first)
        }
        return ValueOrder.compare(other.value.node, bound.value.node) < 0
    }
}
