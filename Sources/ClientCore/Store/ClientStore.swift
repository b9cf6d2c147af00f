public import Tree

/// What a client keeps across restarts. All calls come from the thread of its database.
///
/// Changes gather until `commit`, which keeps all of them or none; what was not committed when the process ends is as if
/// it had never been called. Reading sees what was changed before, committed or not.
///
/// Nothing here throws: what can't be kept is told to the database once, by the means that an implementation was given,
/// and the client goes on in memory (`isUsable`).
public protocol ClientStore: AnyObject {
    /// False once nothing can be kept any longer, or where nothing was to be kept at all: readings are empty then, and
    /// say nothing about what is known.
    var isUsable: Bool { get }
    /// Grows when the server's data and the tracked queries were lost, as a damaged file was set aside.
    var generation: Int { get }

    /// Writes that the server has not answered, in order.
    func pendingWrites() -> [PendingWrite]
    /// Keeps a write until it is removed. The next `commit` returns when it is safe from a power cut too.
    func save(_ write: PendingWrite)
    /// Forgets a write that was answered or taken back; one that is not there is no error.
    func removeWrite(_ id: WriteID)

    /// Who was signed in last.
    func signIn() -> SignInState
    /// Never a token itself.
    func save(_ signIn: SignInState)

    /// What is known of the server's data at a path: only the parts that were set are there.
    func serverData(at path: Path) -> Node
    /// Only these children of the path, without its priority.
    func serverData(at path: Path, children: Set<Key>) -> Node
    /// Replaces what is known at a path. The path may end in `.priority`.
    func setServerData(_ node: Node, at path: Path)
    /// Several replacements, in order.
    func mergeServerData(_ changes: [Change], at path: Path)
    /// Removes server data at and below the path, but for what lies at or below the paths kept; nothing stays of the
    /// priorities above those.
    func prune(below path: Path, keeping: [Path])
    /// About how many bytes the server's data takes. Cheap.
    func serverDataBytes() -> Int

    /// In no order.
    func trackedQueries() -> [TrackedQuery]
    /// Adds a query, or replaces the one with its number.
    func save(_ query: TrackedQuery)
    /// With its keys.
    func removeTrackedQuery(_ id: Int64)
    /// The children that a filtered query has loaded.
    func trackedKeys(_ id: Int64) -> Set<Key>
    /// Replaces them all.
    func setTrackedKeys(_ keys: Set<Key>, of id: Int64)
    /// Adds some and takes others out; the two sets have nothing in common.
    func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64)

    /// Keeps what was changed since the last time. Call it at the end of each turn of the database's thread, before
    /// anybody is told that a write is kept. Changes of server data alone may be put off for a while.
    func commit()
    /// Like `commit`, and nothing is put off: for when there is nothing else to do, and before the process ends.
    func flush()
}

/// What is remembered of the last sign-in: enough to know after a restart that pending writes have to wait until
/// somebody signs in, and nothing that could be used in his place.
public struct SignInState: Sendable, Equatable {
    /// Whether the connection had credentials when it was last up, or was to have them.
    public var isSignedIn: Bool
    /// Whose token it was, where that is known.
    public var subject: String?
    /// When the token ends, in seconds since 1970, where that is known.
    public var expiresAt: Int64?

    public init(isSignedIn: Bool = false, subject: String? = nil, expiresAt: Int64? = nil) {
        self.isSignedIn = isSignedIn
        self.subject = subject
        self.expiresAt = expiresAt
    }
}
