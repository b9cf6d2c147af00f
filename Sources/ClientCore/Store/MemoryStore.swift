public import Tree

/// A store that lasts as long as its object: the plain model of what a store is, for tests.
public final class MemoryStore: ClientStore {
    private struct Content {
        var writes: [WriteID: PendingWrite] = [:]
        var signIn = SignInState()
        var data: Node = .null
        var queries: [Int64: TrackedQuery] = [:]
        var keys: [Int64: Set<Key>] = [:]
    }

    private var content = Content()
    private var committed = Content()

    public init() {}

    /// As if the process had ended and begun again: what was not committed is gone.
    public func restart() { content = committed }

    public var isUsable: Bool { true }
    public var generation: Int { 0 }

    public func pendingWrites() -> [PendingWrite] { content.writes.values.sorted { $0.id < $1.id } }
    public func save(_ write: PendingWrite) { content.writes[write.id] = write }
    public func removeWrite(_ id: WriteID) { content.writes[id] = nil }

    public func signIn() -> SignInState { content.signIn }
    public func save(_ signIn: SignInState) { content.signIn = signIn }

    public func serverData(at path: Path) -> Node { content.data[path] }

    public func serverData(at path: Path, children: Set<Key>) -> Node {
        let node = content.data[path]
        return Node(children: children.map { ($0, node.child($0)) })
    }

    public func setServerData(_ node: Node, at path: Path) { content.data = content.data.replacing(path, with: node) }

    public func mergeServerData(_ changes: [Change], at path: Path) {
        for change in changes { setServerData(change.value, at: path.appending(change.path)) }
    }

    public func prune(below path: Path, keeping: [Path]) {
        if keeping.contains(where: { $0.contains(path) }) { return }
        let kept = content.data[path].keeping(keeping.filter(path.contains).map { $0.relative(to: path) })
        content.data = content.data.replacing(path, with: kept)
    }

    /// Encodes everything: for tests only.
    public func serverDataBytes() -> Int { content.data.isNull ? 0 : NodeCodec.encode(content.data).count }

    public func trackedQueries() -> [TrackedQuery] { Array(content.queries.values) }
    public func save(_ query: TrackedQuery) { content.queries[query.id] = query }

    public func removeTrackedQuery(_ id: Int64) {
        content.queries[id] = nil
        content.keys[id] = nil
    }

    public func trackedKeys(_ id: Int64) -> Set<Key> { content.keys[id] ?? [] }
    public func setTrackedKeys(_ keys: Set<Key>, of id: Int64) { content.keys[id] = keys }

    public func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64) {
        content.keys[id, default: []].formUnion(adding)
        content.keys[id, default: []].subtract(removing)
    }

    public func commit() { committed = content }
    public func flush() { committed = content }
}
