public import Tree

/// The state of one database of a client: the server's data, the client's own unanswered writes, the listeners, and the
/// events that each of them has received.
///
/// Pure except for its cache, and confined to the thread of its database. Each call returns its results; no event mixes
/// two states. The cost of a change depends on its size and on the views that it alters.
/// It does not depend on the size of the tree or on other listeners, not even on other queries at the same path.
///
///     app: apply(write)            server: applyServer(data)
///           |                            |
///           v                            v
///       WriteTree                  Place.known    whole values, once, at the topmost known path
///       writes without             View.own       the children that the server sent for one filtered query
///       an answer                        |
///           |                            |
///           +----- laid over ------------+
///                      |
///                      v
///                Place.local       this client's value at a path with listeners
///                      |  query: order, bounds, limit
///                      v
///                View.shown        compared with the value before: SyncEffects.events
///
/// - A filtered query with `View.own` selects from those children, under the writes, instead of from `SyncPoint.local`.
/// - A write is in the tree from `apply` to `acknowledge`. After a refusal listeners see the server's data again.
///   For an accepted write, `assume` puts the values, except increments without a known base value, into the client's
///   copy of paths whose listens the server has not answered. For all other paths the server has sent its data before
///   it answers the write.
/// - `SyncPoint` objects form a tree of the paths that have listeners or known values, and of the paths above those.
/// - `SyncEffects.listens` contains the listens that the connection has to start and stop. One listen for all data of a
///   path serves all queries at and below the path.
/// - `refresh` (SyncTree+Refresh.swift) visits only the paths at, above and below a change, and emits its events.
///
/// The other files of this type: SyncTree+Listening.swift adds and removes listeners; SyncTree+Server.swift applies the
/// server's data; SyncTree+Accepting.swift handles listens without an answer and accepted writes; SyncTree+Marks.swift
/// tracks the log positions of values.
public final class SyncTree {
    /// - Parameter cache: the data kept across restarts; nil for a database without persistence.
    public convenience init(cache: CacheManager? = nil) { self.init(cache: cache, many: 8) }

    /// - Parameter many: the number of queries at a path from which on they have an index.
    init(cache: CacheManager?, many: Int) {
        self.cache = cache
        self.many = many
    }

    let many: Int

    let root = SyncPoint(path: .root, parent: nil)
    let writes = WriteTree()
    let cache: CacheManager?
    /// Filtered queries that have a listen of their own.
    var tagged: [ListenTag: (syncPoint: SyncPoint, view: View)] = [:]
    private var lastTag: Int64 = 0
    /// The number of updates of views, which measures the cost of a change.
    var updates = 0

    func makeTag() -> ListenTag {
        lastTag += 1
        return ListenTag(rawValue: lastTag)
    }

    // MARK: The client's writes

    /// Applies a write over the known data. Its number must be greater than those of all earlier writes, except for a
    /// write that was found in the cache after a restart.
    ///
    /// - Parameters:
    ///   - estimate: the content with resolved timestamps (`estimate`). Increments are computed from the local value,
    ///     once it is known.
    ///   - isVisible: false for a transaction that is not applied locally.
    public func apply(_ write: PendingWrite, estimate: PendingWrite.Content, isVisible: Bool = true) -> SyncEffects {
        let record = writes.add(write.id, at: write.path, estimate, isVisible: isVisible, over: known)
        guard isVisible else { return SyncEffects() }
        return refresh(touched(by: record))
    }

    /// Removes a write that the server has answered, so that the server's data decides. `isRefused`: the write is
    /// rolled back.
    public func acknowledge(_ id: WriteID, isRefused: Bool) -> SyncEffects {
        guard let record = writes.records[id] else { return SyncEffects() }
        let shadowed = record.changes.map { writes.isShadowed(id, at: $0.path) && !concernsPriorities(above: $0.path) }
        let accepted = isRefused ? [] : record.changes.filter { !$0.value.hasIncrement }
        _ = writes.remove(id)
        cache?.removeWrite(id)
        guard record.isVisible else { return SyncEffects() }
        var touched = ChangedPaths.nothing
        for (change, isShadowed) in zip(record.changes, shadowed) where !isShadowed {
            touched.insert(change.path.namesPriority ? change.path.parent ?? .root : change.path)
        }
        for change in ApplicationOrder.sorted(accepted) {
            let path = change.path
            cache?.acknowledge(
                .merge([Change(path: path.relative(to: record.path), value: change.value)]), at: record.path)
            assume(change.value, at: path)
        }
        return refresh(touched)
    }

    private func touched(by record: WriteTree.Record) -> ChangedPaths {
        guard record.changes.count > 1 else {
            guard let path = record.changes.first?.path else { return .nothing }
            return ChangedPaths(path.namesPriority ? path.parent ?? .root : path)
        }
        var touched = ChangedPaths.nothing
        for change in record.changes {
            touched.insert(change.path.namesPriority ? change.path.parent ?? .root : change.path)
        }
        return touched
    }

    // MARK: Reading

    /// Returns the value that a listener at the path would see, including pending writes; nil if it is not completely
    /// known.
    ///
    /// - Parameters:
    ///   - excluding: writes to ignore.
    ///   - includingHidden: whether transactions that are not applied locally count.
    public func localValue(
        at path: Path, excluding: Set<WriteID> = [], includingHidden: Bool = false
    ) -> Node? {
        value(at: path, WriteFilter(excluded: excluding, includesHidden: includingHidden))
    }

    /// Returns the value that a query would see, with its order and limits applied; nil if it is not completely known.
    public func localValue(of spec: QuerySpec) -> Node? {
        if let node = writes.value(at: spec.path, over: known(spec.path) ?? childOfQuery(above: spec.path)) {
            return spec.query.selectsAll ? node : spec.query.select(from: node)
        }
        guard let view = root.find(spec.path.keys[...])?.view(of: spec.query), view.isComplete else { return nil }
        return view.shown
    }

    /// Returns the data that the server has sent for a query, complete or not, for the hashes of a listen that is sent
    /// again.
    public func serverValue(of spec: QuerySpec) -> (node: Node, isComplete: Bool) {
        if let node = serverValue(at: spec.path) {
            return (spec.query.selectsAll ? node : spec.query.select(from: node), true)
        }
        guard let syncPoint = root.find(spec.path.keys[...]) else { return (.null, false) }
        if !spec.query.selectsAll, let own = syncPoint.view(of: spec.query)?.own { return (own.node, own.isComplete) }
        let children = syncPoint.children.lazy.compactMap { key, child in child.known.map { (key, $0) } }
        return (Node(children: children), false)
    }

    /// Returns the content with resolved timestamps and unchanged increments.
    ///
    /// - Parameter timestamp: the present time of the server's clock, in milliseconds since 1970.
    public static func estimate(_ content: PendingWrite.Content, timestamp: Int64) -> PendingWrite.Content {
        switch content {
        case .overwrite(let node): .overwrite(node.withTimestamps(timestamp))
        case .merge(let changes):
            .merge(changes.map { Change(path: $0.path, value: $0.value.withTimestamps(timestamp)) })
        }
    }
}
