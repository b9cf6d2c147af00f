public import Tree

/// A place and what of it is asked for: what a listener listens to.
public struct QuerySpec: Sendable, Hashable {
    public let path: Path
    /// The order, the bounds and the limit; by priority and without bounds where nothing was asked for.
    public let query: Query

    public init(path: Path, query: Query = Query()) {
        self.path = path
        self.query = query
    }

    /// Whether all data of the place is loaded for it; its order only matters to events then, not to the server.
    public var loadsAllData: Bool { query.selectsAll }
}

/// The number of a listen that has a query, by which the server names it (reference: rtdb-protocol 3.2).
public struct ListenTag: Sendable, Hashable {
    public let rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// What the server has to be asked for, or no longer.
public enum ListenChange: Sendable, Equatable {
    /// The query is reduced to what the server needs to know: one that loads all data is the default query. `tag` is nil
    /// for a default listen.
    case start(QuerySpec, tag: ListenTag?)
    case stop(QuerySpec, tag: ListenTag?)
}
