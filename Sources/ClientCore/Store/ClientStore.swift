public import Tree

/// The data that a client keeps across restarts. All calls come from the thread of its database.
///
/// Changes are collected until `commit`, which stores all of them or none; changes not committed when the process ends
/// are lost. Reads include changes that are not committed yet.
///
/// No function throws: a failure to store data is reported to the database once, by a function that the implementation
/// was given, and the client continues in memory (`isUsable`).
public protocol ClientStore: AnyObject {
    /// False once data can no longer be stored, or if nothing was to be stored at all. Reads then return nothing, which
    /// does not mean that nothing is known.
    var isUsable: Bool { get }
    /// Increases when the server's data and the tracked queries were lost because a damaged file was moved away.
    var generation: Int { get }

    /// Returns the writes that the server has not answered, in order.
    func pendingWrites() -> [PendingWrite]
    /// Saves a write until it is removed. After the next `commit` returns, the write also survives a power failure.
    func save(_ write: PendingWrite)
    /// Removes a write that was answered or cancelled; removing a missing write is not an error.
    func removeWrite(_ id: WriteID)

    /// Returns the last sign-in state.
    func signIn() -> SignInState
    /// Saves the sign-in state without the token.
    func save(_ signIn: SignInState)

    /// Returns the known server data at a path: only the parts that were set.
    func serverData(at path: Path) -> Node
    /// Returns the known data of these children of the path only, without the path's priority.
    func serverData(at path: Path, children: Set<Key>) -> Node
    /// Replaces the known data at a path. The path may end in `.priority`.
    func setServerData(_ node: Node, at path: Path)
    /// Replaces the known data at several paths, in order.
    func mergeServerData(_ changes: [Change], at path: Path)
    /// Removes server data at and below the path, except at or below the kept paths; the priorities above the kept
    /// paths are removed.
    func prune(below path: Path, keeping: [Path])
    /// Returns the approximate number of bytes of the server's data. Cheap.
    func serverDataBytes() -> Int

    /// Returns the tracked queries, in no particular order.
    func trackedQueries() -> [TrackedQuery]
    /// Adds a query, or replaces the one with its number.
    func save(_ query: TrackedQuery)
    /// Removes a query with its keys.
    func removeTrackedQuery(_ id: Int64)
    /// Returns the children that a filtered query has loaded.
    func trackedKeys(_ id: Int64) -> Set<Key>
    /// Replaces all children of a filtered query.
    func setTrackedKeys(_ keys: Set<Key>, of id: Int64)
    /// Adds and removes children of a filtered query; the two sets are disjoint.
    func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64)

    /// Stores the changes since the last call. Call it at the end of each turn of the database's thread, before the app
    /// is notified that a write is stored. Changes of server data alone may be delayed for a while.
    func commit()
    /// Stores all changes without a delay: for idle times, and before the process ends.
    func flush()
}

/// The state of the last sign-in: enough to know after a restart that pending writes have to wait until the user signs
/// in, and nothing that could be used to impersonate the user.
public struct SignInState: Sendable, Equatable {
    /// Whether the connection had credentials when it was last up, or was to have them.
    public var isSignedIn: Bool
    /// The subject of the token, if known.
    public var subject: String?
    /// The expiry of the token, in seconds since 1970, if known.
    public var expiresAt: Int64?

    public init(isSignedIn: Bool = false, subject: String? = nil, expiresAt: Int64? = nil) {
        self.isSignedIn = isSignedIn
        self.subject = subject
        self.expiresAt = expiresAt
    }
}
