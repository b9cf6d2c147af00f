internal import Tree
public import Wire

/// The queries that are tracked, by their places.
struct TrackedQueries {
    private final class Place {
        var children: [Key: Place] = [:]
        var queries: [Query: TrackedQuery] = [:]

        var completeDefault: TrackedQuery? {
            guard let query = queries[Query()], query.isComplete else { return nil }
            return query
        }
    }

    private var root = Place()
    private(set) var inactiveCount = 0

    private func place(_ path: Path) -> Place? {
        var place = root
        for key in path.keys {
            guard let child = place.children[key] else { return nil }
            place = child
        }
        return place
    }

    /// Whether the two are one: a copy is, as both show the same queries.
    func isSame(as other: TrackedQueries) -> Bool { root === other.root }

    subscript(spec: QuerySpec) -> TrackedQuery? { place(spec.path)?.queries[spec.query] }

    /// Adds a query, or replaces the one of its specification.
    mutating func put(_ query: TrackedQuery) {
        var place = root
        for key in query.spec.path.keys {
            if let child = place.children[key] {
                place = child
            } else {
                let child = Place()
                place.children[key] = child
                place = child
            }
        }
        let old = place.queries.updateValue(query, forKey: query.spec.query)
        if old?.isActive == false { inactiveCount -= 1 }
        if !query.isActive { inactiveCount += 1 }
    }

    mutating func remove(_ spec: QuerySpec) {
        var way = [root]
        for key in spec.path.keys {
            guard let child = way[way.count - 1].children[key] else { return }
            way.append(child)
        }
        guard let old = way[way.count - 1].queries.removeValue(forKey: spec.query) else { return }
        if !old.isActive { inactiveCount -= 1 }
        for depth in stride(from: way.count - 1, to: 0, by: -1)
        where way[depth].queries.isEmpty && way[depth].children.isEmpty {
            way[depth - 1].children[spec.path[depth - 1]] = nil
        }
    }

    /// All queries at a path.
    func queries(at path: Path) -> [TrackedQuery] { place(path).map { Array($0.queries.values) } ?? [] }

    /// The complete default query at the path or above it: one that is active, else the one that was used last.
    func completeDefault(over path: Path) -> TrackedQuery? {
        var best: TrackedQuery?
        visit(path) { place in
            guard let query = place.completeDefault else { return }
            if let known = best, (known.isActive ? 1 : 0, known.lastUse) > (query.isActive ? 1 : 0, query.lastUse) {
                return
            }
            best = query
        }
        return best
    }

    /// The highest query that is listened to and has all of the path: it brings what those below it are told.
    func topActiveDefault(over path: Path) -> TrackedQuery? {
        var top: TrackedQuery?
        visit(path) { place in
            if top == nil, let query = place.queries[Query()], query.isActive { top = query }
        }
        return top
    }

    /// Whether somebody listens to all of the path, or of one above it.
    func isInActiveDefault(_ path: Path) -> Bool { topActiveDefault(over: path) != nil }

    /// The places on the way to a path, and its own, as far as there are any.
    private func visit(_ path: Path, _ body: (Place) -> Void) {
        var place = root
        body(place)
        for key in path.keys {
            guard let child = place.children[key] else { return }
            body(child)
            place = child
        }
    }

    /// Active queries above a path that select only some children.
    func activeFilters(above path: Path) -> [TrackedQuery] {
        var found: [TrackedQuery] = []
        var place = root
        for key in path.keys {
            for query in place.queries.values where query.isActive && !query.spec.loadsAllData { found.append(query) }
            guard let child = place.children[key] else { break }
            place = child
        }
        return found
    }

    /// The queries at, above and below a path.
    func overlapping(_ path: Path) -> [TrackedQuery] {
        var found: [TrackedQuery] = []
        var place = root
        for key in path.keys {
            found.append(contentsOf: place.queries.values)
            guard let child = place.children[key] else { return found }
            place = child
        }
        return found + all(below: path)
    }

    /// The path's children that have a complete default query of their own.
    func completeChildren(of path: Path) -> [Key] {
        place(path)?.children.compactMap { $0.value.completeDefault == nil ? nil : $0.key } ?? []
    }

    /// The queries at and below a path.
    func all(below path: Path = .root) -> [TrackedQuery] {
        guard let place = place(path) else { return [] }
        var found: [TrackedQuery] = []
        var rest = [place]
        while let next = rest.popLast() {
            found.append(contentsOf: next.queries.values)
            rest.append(contentsOf: next.children.values)
        }
        return found
    }
}

/// A query whose data the client has, or is getting.
public struct TrackedQuery: Sendable, Equatable {
    /// Unique within a store.
    public let id: Int64
    /// One that loads all data is the default query.
    public let spec: QuerySpec
    /// Grows with each use of any query: the least is that of the query that was not used for longest. No time, as
    /// clocks step back.
    public var lastUse: Int64
    /// Whether all that it selects is there.
    public var isComplete: Bool
    /// Whether somebody listens to it now, or it is kept synced.
    public var isActive: Bool
    /// As of which entry of the server's log its data is at least; nil where that isn't known.
    public var mark: LogMark?

    public init(
        id: Int64, spec: QuerySpec, lastUse: Int64, isComplete: Bool, isActive: Bool, mark: LogMark? = nil
    ) {
        self.mark = mark
        self.id = id
        self.spec = spec
        self.lastUse = lastUse
        self.isComplete = isComplete
        self.isActive = isActive
    }
}
