internal import Tree
public import Wire

/// The tracked queries, by their paths.
struct TrackedQueries {
    private final class Level {
        var children: [Key: Level] = [:]
        var queries: [Query: TrackedQuery] = [:]

        var completeDefault: TrackedQuery? {
            guard let query = queries[Query()], query.isComplete else { return nil }
            return query
        }
    }

    private var root = Level()
    private(set) var inactiveCount = 0

    private func level(_ path: Path) -> Level? {
        var level = root
        for key in path.keys {
            guard let child = level.children[key] else { return nil }
            level = child
        }
        return level
    }

    /// Whether both are the same: true for a copy, because both show the same queries.
    func isSame(as other: TrackedQueries) -> Bool { root === other.root }

    subscript(spec: QuerySpec) -> TrackedQuery? { level(spec.path)?.queries[spec.query] }

    /// Adds a query, or replaces the one with its specification.
    mutating func put(_ query: TrackedQuery) {
        var level = root
        for key in query.spec.path.keys {
            if let child = level.children[key] {
                level = child
            } else {
                let child = Level()
                level.children[key] = child
                level = child
            }
        }
        let old = level.queries.updateValue(query, forKey: query.spec.query)
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
    func queries(at path: Path) -> [TrackedQuery] { level(path).map { Array($0.queries.values) } ?? [] }

    /// Returns the complete default query at the path or above it: an active one if there is any, otherwise the most
    /// recently used one.
    func completeDefault(over path: Path) -> TrackedQuery? {
        var best: TrackedQuery?
        visit(path) { level in
            guard let query = level.completeDefault else { return }
            if let known = best, (known.isActive ? 1 : 0, known.lastUse) > (query.isActive ? 1 : 0, query.lastUse) {
                return
            }
            best = query
        }
        return best
    }

    /// Returns the topmost active default query that covers `path`. It serves the listens below it.
    func topActiveDefault(over path: Path) -> TrackedQuery? {
        var top: TrackedQuery?
        visit(path) { level in
            if top == nil, let query = level.queries[Query()], query.isActive { top = query }
        }
        return top
    }

    /// Whether a default query at the path or above it is active.
    func isInActiveDefault(_ path: Path) -> Bool { topActiveDefault(over: path) != nil }

    /// Visits the existing nodes from the root to the path.
    private func visit(_ path: Path, _ body: (Level) -> Void) {
        var level = root
        body(level)
        for key in path.keys {
            guard let child = level.children[key] else { return }
            body(child)
            level = child
        }
    }

    /// Active queries above a path that select only some children.
    func activeFilters(above path: Path) -> [TrackedQuery] {
        var found: [TrackedQuery] = []
        var level = root
        for key in path.keys {
            for query in level.queries.values where query.isActive && !query.spec.loadsAllData { found.append(query) }
            guard let child = level.children[key] else { break }
            level = child
        }
        return found
    }

    /// The queries at, above and below a path.
    func overlapping(_ path: Path) -> [TrackedQuery] {
        var found: [TrackedQuery] = []
        var level = root
        for key in path.keys {
            found.append(contentsOf: level.queries.values)
            guard let child = level.children[key] else { return found }
            level = child
        }
        return found + all(below: path)
    }

    /// The path's children that have a complete default query of their own.
    func completeChildren(of path: Path) -> [Key] {
        level(path)?.children.compactMap { $0.value.completeDefault == nil ? nil : $0.key } ?? []
    }

    /// The queries at and below a path.
    func all(below path: Path = .root) -> [TrackedQuery] {
        guard let level = level(path) else { return [] }
        var found: [TrackedQuery] = []
        var rest = [level]
        while let next = rest.popLast() {
            found.append(contentsOf: next.queries.values)
            rest.append(contentsOf: next.children.values)
        }
        return found
    }
}

/// A query whose data the client has or is loading.
public struct TrackedQuery: Sendable, Equatable {
    /// Unique within a store.
    public let id: Int64
    /// A query that loads all data is the default query.
    public let spec: QuerySpec
    /// Increases with each use of any query: the least recently used query has the lowest value. Not a time, because
    /// clocks may step back.
    public var lastUse: Int64
    /// Whether all data that the query selects is stored.
    public var isComplete: Bool
    /// Whether the query has listeners now, or is kept synced.
    public var isActive: Bool
    /// The log position up to which its data is known to be complete, or nil if unknown.
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
