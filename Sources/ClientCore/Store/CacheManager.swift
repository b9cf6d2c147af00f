public import Tree

/// Decides what of a database is kept, what of it serves a query, and what goes when there is too much. Confined to the
/// thread of its database.
///
/// Nothing at or below `.info` is ever kept.
public final class CacheManager {
    /// - Parameter budget: how many bytes of server data may stay without anybody listening to them.
    public init(store: any ClientStore, budget: Int = CacheManager.defaultBudget) {
        self.store = store
        self.budget = budget
    }

    let store: any ClientStore
    var budget: Int

    public static let defaultBudget = 10 << 20

    // MARK: Pending writes

    /// After a restart: what has to be sent, in order.
    public func pendingWrites() -> [PendingWrite] { [] }
    /// Before a write's call returns; it is safe after `commit`.
    public func save(_ write: PendingWrite) {}
    /// The write was answered or taken back.
    public func removeWrite(_ id: WriteID) {}

    // MARK: Listening

    /// Somebody listens to a query that nobody listened to before, or it is kept synced from now on. Call it for queries
    /// that are shadowed by a default listen above them too. Returns what serves it now.
    public func activate(_ spec: QuerySpec) -> CachedQuery { .nothing }
    /// Nobody listens any longer.
    public func deactivate(_ spec: QuerySpec) {}
    /// The server has sent all that an active query selects.
    public func complete(_ spec: QuerySpec) {}
    /// What is stored for a query, without listening to it.
    public func cached(_ spec: QuerySpec) -> CachedQuery { .nothing }

    // MARK: The server's data

    /// The server set a value at or below the place of a listen (the default query of the path for data without a tag).
    /// For a filtered query a null child says that it left what is selected.
    public func applyServer(_ node: Node, at path: Path, of spec: QuerySpec) {}
    /// Several places below the path, relative to it.
    public func applyServer(_ changes: [Change], at path: Path, of spec: QuerySpec) {}
    /// The server took a write. `content`: with its server values estimated. It stays where no listen brings the
    /// server's own data.
    public func acknowledge(_ content: PendingWrite.Content, at path: Path) {}

    // MARK: Keeping

    /// At the end of each turn of the database's thread, before anybody is told that a write is kept.
    public func commit() {}
    /// When there is nothing else to do, and before the database goes away.
    public func flush() {}
}
