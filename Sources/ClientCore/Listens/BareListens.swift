public import Tree

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
