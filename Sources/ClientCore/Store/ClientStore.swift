public import Tree

/// What a client keeps across restarts. All calls come from the thread of its database. What is not committed when the
/// process ends is as if it had never been called.
///
/// The first failure of a call is told to the database by the implementation; later calls do nothing.
public protocol ClientStore: AnyObject {
    /// Writes that the server has not answered, in order.
    func pendingWrites() -> [StoredWrite]
    func save(_ write: PendingWrite)
    func removeWrite(_ id: WriteID)

    /// What is known of the server's data at a path: only the parts that were set are there.
    func serverData(at path: Path) -> Node
    /// Only these children of the path.
    func serverData(at path: Path, children: Set<Key>) -> Node
    func setServerData(_ node: Node, at path: Path)
    func mergeServerData(_ changes: [Change], at path: Path)
    /// About how many bytes the server's data takes.
    func serverDataBytes() -> Int

    func trackedQueries() -> [TrackedQuery]
    func save(_ query: TrackedQuery)
    /// With its keys.
    func removeTrackedQuery(_ id: Int64)
    /// The children that a filtered query has loaded.
    func trackedKeys(_ id: Int64) -> Set<Key>
    func setTrackedKeys(_ keys: Set<Key>, of id: Int64)
    func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64)
    /// Removes server data at and below the path, but for what lies at or below the paths kept and the children kept.
    func prune(below path: Path, keeping: [Path])

    /// Runs `body` as one transaction: all of it is kept, or nothing. They don't nest.
    func transaction(_ body: () -> Void)
}

/// A pending write as it was found after a restart.
public struct StoredWrite: Sendable, Equatable {
    public let write: PendingWrite

    public init(write: PendingWrite) { self.write = write }
}

/// A query whose data the client has, or is getting.
public struct TrackedQuery: Sendable, Equatable {
    public let id: Int64
    public let spec: QuerySpec
    /// Milliseconds since 1970.
    public var lastUse: Int64
    /// Whether all that it selects is there.
    public var isComplete: Bool
    /// Whether somebody listens to it now. Never true after a restart.
    public var isActive: Bool

    public init(id: Int64, spec: QuerySpec, lastUse: Int64, isComplete: Bool, isActive: Bool) {
        self.id = id
        self.spec = spec
        self.lastUse = lastUse
        self.isComplete = isComplete
        self.isActive = isActive
    }
}
