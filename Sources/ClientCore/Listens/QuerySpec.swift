public import Tree

/// A path and the selection of its data: the target of a listener.
public struct QuerySpec: Sendable, Hashable {
    public let path: Path
    /// The order, the bounds and the limit; by default, order by priority without bounds.
    public let query: Query

    public init(path: Path, query: Query = Query()) {
        self.path = path
        self.query = query
    }

    /// Whether the query loads all data of the path. Then its order only matters to events, and not to the server.
    public var loadsAllData: Bool { query.selectsAll }
}

/// The number of a listen with a query, which identifies it in the server's messages (reference: rtdb-protocol 3.2).
public struct ListenTag: Sendable, Hashable {
    public let rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A listen that the connection has to start or stop.
public enum ListenChange: Sendable, Equatable {
    /// The query is reduced to the form that the server needs: one that loads all data is the default query. `tag` is
    /// nil for a default listen.
    case start(QuerySpec, tag: ListenTag?)
    case stop(QuerySpec, tag: ListenTag?)
}

/// Listens that were sent without a hash, because the client did not know all of their data, and that have received no
/// data yet.
///
/// A missing value and an unknown value have the same hash: if the server has no data, it answers such a listen without
/// sending any. The client's data for it, from its disk or from other writes, is then outdated.
public struct BareListens: Sendable {
    /// Listens for all data of a path have no tag.
    private var paths: Set<Path> = []
    private var tags: Set<ListenTag> = []

    public init() {}

    /// Records that a listen was sent.
    ///
    /// - Parameter isComplete: whether the client knew all of the data, and sent its hash.
    public mutating func sent(_ spec: QuerySpec, tag: ListenTag?, isComplete: Bool) {
        guard !isComplete else { return stopped(spec, tag: tag) }
        if let tag { tags.insert(tag) } else { paths.insert(spec.path) }
    }

    /// Records that the server has sent data. It sends the data of each listen at the listen's path, so a lookup of
    /// that path suffices for any number of listens.
    public mutating func heard(at path: Path, tag: ListenTag?) {
        if let tag { tags.remove(tag) } else { paths.remove(path) }
    }

    /// Records that the server has answered. Returns whether it has no data for the listen.
    public mutating func answered(_ spec: QuerySpec, tag: ListenTag?) -> Bool {
        if let tag { return tags.remove(tag) != nil }
        return paths.remove(spec.path) != nil
    }

    /// Records that the listen was stopped.
    public mutating func stopped(_ spec: QuerySpec, tag: ListenTag?) { _ = answered(spec, tag: tag) }
}

extension Key {
    /// The first key of the paths that the client answers itself.
    package static let info = Key(".info")
}

extension Path {
    /// Whether the client answers the path itself: such paths cannot be written and are not stored.
    package var isInfo: Bool { keys.first == .info }
}
