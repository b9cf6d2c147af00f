public import Tree

/// A store that lasts as long as its object: the simplest implementation of a store, for tests.
package final class MemoryStore: ClientStore {
    private struct Content {
        var writes: [WriteID: PendingWrite] = [:]
        var signIn = SignInState()
        var data: Node = .null
        var queries: [Int64: TrackedQuery] = [:]
        var keys: [Int64: Set<Key>] = [:]
    }

    private var content = Content()
    private var committed = Content()

    package init() {}

    /// Simulates a restart of the process: uncommitted changes are lost.
    package func restart() { content = committed }

    package var isUsable: Bool { true }
    package var generation: Int { 0 }

    package func pendingWrites() -> [PendingWrite] { content.writes.values.sorted { $0.id < $1.id } }
    package func save(_ write: PendingWrite) { content.writes[write.id] = write }
    package func removeWrite(_ id: WriteID) { content.writes[id] = nil }

    package func signIn() -> SignInState { content.signIn }
    package func save(_ signIn: SignInState) { content.signIn = signIn }

    package func serverData(at path: Path) -> Node { content.data[path] }

    package func serverData(at path: Path, children: Set<Key>) -> Node {
        let node = content.data[path]
        return Node(children: children.map { ($0, node.child($0)) })
    }

    package func setServerData(_ node: Node, at path: Path) { content.data = content.data.replacing(path, with: node) }

    package func mergeServerData(_ changes: [Change], at path: Path) {
        for change in changes { setServerData(change.value, at: path.appending(change.path)) }
    }

    package func prune(below path: Path, keeping: [Path]) {
        if keeping.contains(where: { $0.contains(path) }) { return }
        let kept = content.data[path].keeping(keeping.filter(path.contains).map { $0.relative(to: path) })
        content.data = content.data.replacing(path, with: kept)
    }

    /// Encodes everything: for tests only.
    package func serverDataBytes() -> Int { content.data.isNull ? 0 : NodeCodec.encode(content.data).count }

    package func trackedQueries() -> [TrackedQuery] { Array(content.queries.values) }
    package func save(_ query: TrackedQuery) { content.queries[query.id] = query }

    package func removeTrackedQuery(_ id: Int64) {
        content.queries[id] = nil
        content.keys[id] = nil
    }

    package func trackedKeys(_ id: Int64) -> Set<Key> { content.keys[id] ?? [] }
    package func setTrackedKeys(_ keys: Set<Key>, of id: Int64) { content.keys[id] = keys }

    package func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64) {
        content.keys[id, default: []].formUnion(adding)
        content.keys[id, default: []].subtract(removing)
    }

    package func commit() { committed = content }
    package func flush() { committed = content }
}

extension Node {
    /// Returns the parts at or below some paths only, without the priorities above them.
    public func keeping(_ paths: [Path]) -> Node {
        if paths.contains(where: \.isRoot) { return self }
        return paths.reduce(.null) { kept, path in
            let part = self[path]
            return part.isNull ? kept : kept.replacing(path, with: part)
        }
    }
}
