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

/// Listens that were sent without a hash, as the client did not know all they ask for, and that have brought nothing yet.
///
/// Nothing has the same hash as what isn't known: where the server has nothing it answers such a listen without saying so.
/// What the client has of it then, from its disk or from others' writes, is out of date.
public struct BareListens: Sendable {
    /// Listens for all that is at a place have no tag.
    private var places: Set<Path> = []
    private var tags: Set<ListenTag> = []

    public init() {}

    /// - Parameter isComplete: whether the client knew all of it, and sent the hash of that.
    public mutating func sent(_ spec: QuerySpec, tag: ListenTag?, isComplete: Bool) {
        guard !isComplete else { return stopped(spec, tag: tag) }
        if let tag { tags.insert(tag) } else { places.insert(spec.path) }
    }

    /// The server has sent data. It sends each listen its own, at the listen's place: looking there is enough, however many
    /// listens there are.
    public mutating func heard(at path: Path, tag: ListenTag?) {
        if let tag { tags.remove(tag) } else { places.remove(path) }
    }

    /// The server has answered. Whether it has nothing of what was asked for.
    public mutating func answered(_ spec: QuerySpec, tag: ListenTag?) -> Bool {
        if let tag { return tags.remove(tag) != nil }
        return places.remove(spec.path) != nil
    }

    /// Nobody asks for it any more.
    public mutating func stopped(_ spec: QuerySpec, tag: ListenTag?) { _ = answered(spec, tag: tag) }
}

extension Key {
    /// The first key of the paths that the client itself answers.
    package static let info = Key(".info")
}

extension Path {
    /// Whether the client itself answers it: nothing is written there, and nothing kept.
    package var isInfo: Bool { keys.first == .info }
}
