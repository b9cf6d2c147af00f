import ClientCore
import Tree

/// A store whose file is found damaged when a test says so, or whose data seems larger than it is.
final class OddStore: ClientStore {
    private var memory = MemoryStore()
    private(set) var generation = 0
    var losesWhenRead = false
    var bytesFactor = 1
    var isUsable: Bool { true }

    func restart() { memory.restart() }

    func lose() {
        memory = MemoryStore()
        generation += 1
    }

    func pendingWrites() -> [PendingWrite] { memory.pendingWrites() }
    func save(_ write: PendingWrite) { memory.save(write) }
    func removeWrite(_ id: WriteID) { memory.removeWrite(id) }
    func signIn() -> SignInState { memory.signIn() }
    func save(_ signIn: SignInState) { memory.save(signIn) }
    func serverData(at path: Path) -> Node {
        if losesWhenRead { lose() }
        return memory.serverData(at: path)
    }
    func serverData(at path: Path, children: Set<Key>) -> Node { memory.serverData(at: path, children: children) }
    func setServerData(_ node: Node, at path: Path) { memory.setServerData(node, at: path) }
    func mergeServerData(_ changes: [Change], at path: Path) { memory.mergeServerData(changes, at: path) }
    func prune(below path: Path, keeping: [Path]) { memory.prune(below: path, keeping: keeping) }
    func serverDataBytes() -> Int { memory.serverDataBytes() * bytesFactor }
    func trackedQueries() -> [TrackedQuery] { memory.trackedQueries() }
    func save(_ query: TrackedQuery) { memory.save(query) }
    func removeTrackedQuery(_ id: Int64) { memory.removeTrackedQuery(id) }
    func trackedKeys(_ id: Int64) -> Set<Key> { memory.trackedKeys(id) }
    func setTrackedKeys(_ keys: Set<Key>, of id: Int64) { memory.setTrackedKeys(keys, of: id) }
    func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64) {
        memory.updateTrackedKeys(adding: adding, removing: removing, of: id)
    }
    func commit() { memory.commit() }
    func flush() { memory.flush() }
}
