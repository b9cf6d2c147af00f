public import Wire

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
