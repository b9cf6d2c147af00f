public import Tree

/// What one database of a client knows: the server's data, the client's own writes that the server has not answered,
/// who listens, and what each of them was told. Pure but for its store; confined to the thread of its database.
public struct SyncTree {
    public init() {}

    // MARK: Listening

    /// The first events (from what is known) come at once.
    public mutating func add(_ registration: Registration) -> SyncEffects { SyncEffects() }
    public mutating func remove(_ registration: Registration) -> SyncEffects { SyncEffects() }
    /// Takes everybody off a query, after the server refused or revoked it; returns whom to tell.
    public mutating func removeAll(_ spec: QuerySpec) -> (registrations: [Registration], effects: SyncEffects) {
        ([], SyncEffects())
    }
    /// Listens without anybody who is told.
    public mutating func setKeptSynced(_ spec: QuerySpec, _ isKept: Bool) -> SyncEffects { SyncEffects() }

    // MARK: The client's writes

    /// - Parameters:
    ///   - estimate: the content with its server values estimated.
    ///   - isVisible: false for a transaction that is not applied locally.
    public mutating func apply(_ write: PendingWrite, estimate: PendingWrite.Content, isVisible: Bool) -> SyncEffects {
        SyncEffects()
    }
    /// The server has answered: its own data decides now. `isRefused`: the write is taken back.
    public mutating func acknowledge(_ id: WriteID, isRefused: Bool) -> SyncEffects { SyncEffects() }
    /// Takes back all that was not answered.
    public mutating func removeAllWrites() -> SyncEffects { SyncEffects() }

    // MARK: The server's data

    /// `tag`: of the listen that the data belongs to; nil for default listens.
    public mutating func applyServer(_ value: Node, at path: Path, tag: ListenTag?) -> SyncEffects { SyncEffects() }
    public mutating func applyServer(_ changes: [Change], at path: Path, tag: ListenTag?) -> SyncEffects {
        SyncEffects()
    }
    /// The server has sent all that a listen selects.
    public mutating func completeListen(_ spec: QuerySpec, tag: ListenTag?) -> SyncEffects { SyncEffects() }

    // MARK: Reading

    /// What a listener at the path would see, pending writes in it; nil where it is not completely known.
    public func localValue(at path: Path, excluding: Set<WriteID> = []) -> Node? { nil }
    /// What a query would see, where that is completely known.
    public func localValue(of spec: QuerySpec) -> Node? { nil }
    /// What the server has sent of a query, complete or not, for the hashes of a listen that is sent again.
    public func serverValue(of spec: QuerySpec) -> (node: Node, isComplete: Bool) { (.null, false) }
}
