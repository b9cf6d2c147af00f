public import Tree
public import Wire

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

/// What a store has for a query.
public struct CachedQuery: Sendable, Equatable {
    /// The server's data at the query's path as far as it is known. It may hold children that the query doesn't select:
    /// filter it.
    public let node: Node
    /// Whether all that the query selects is in `node`: a value event may be raised.
    public let isComplete: Bool
    /// The children of the path that are completely known; nil where everything at the path is.
    public let knownChildren: Set<Key>?

    /// As of which entry of the server's log that is at least, where it is complete; nil where it isn't known.
    public let mark: LogMark?

    public init(node: Node, isComplete: Bool, knownChildren: Set<Key>?, mark: LogMark? = nil) {
        self.mark = mark
        self.node = node
        self.isComplete = isComplete
        self.knownChildren = knownChildren
    }

    /// Nothing is known.
    public static let nothing = CachedQuery(node: .null, isComplete: false, knownChildren: [])
}

extension Query {
    /// Whether a child may be within the bounds of both: what one of the same order has loaded is nothing for the other where
    /// they lie apart.
    func mayShareChildren(with other: Query) -> Bool {
        guard index == other.index else { return true }
        return !isLater(start, than: other.end) && !isLater(other.start, than: end)
    }

    /// Whether all that this query selects is among what another one has loaded, whatever the data: the order is the
    /// same, the bounds lie within the other's, and no limit of the other's cuts anything off.
    ///
    /// - Parameter count: how many children the other has loaded. Fewer than its limit are all within its bounds.
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

    /// Whether a bound's value is strictly behind another's. Equal values with other keys are left out: they are rare.
    private func isLater(_ bound: Bound?, than other: Bound?) -> Bool {
        guard let bound, let other else { return false }
        if index == .key {
            guard case .string(let first) = bound.value.node, case .string(let second) = other.value.node else {
                return false
            }
            // The names of the least and the greatest key are no keys.
            guard first.utf8.first != UInt8(ascii: "["), second.utf8.first != UInt8(ascii: "[") else { return false }
            return Key(second) < Key(first)
        }
        return ValueOrder.compare(other.value.node, bound.value.node) < 0
    }
}
