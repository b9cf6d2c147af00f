public import Tree
public import Wire

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
