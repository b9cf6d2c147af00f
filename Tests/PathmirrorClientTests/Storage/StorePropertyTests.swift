import ClientCore
import TestSupport
import Testing
import Tree
import Wire

@testable import PathmirrorClient

/// Compares random work on a file with the plain model.
@Suite struct StorePropertyTests {
    private static let layouts: [StoreLayout] = [(1, 1), (4, 40), (32, 2048), (1000, 1_000_000)].map {
        var layout = StoreLayout()
        (layout.maxLeaves, layout.maxBytes) = $0
        return layout
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64]) func aFileIsTheModel(seed: UInt64) throws {
        let folder = TemporaryFolder.path("store")
        defer { TemporaryFolder.remove(folder) }
        var work = StoreWork(seed: seed)
        let layout = Self.layouts[Int(seed) % Self.layouts.count]
        let model = MemoryStore()
        func open() throws -> SQLiteClientStore {
            try SQLiteClientStore(path: folder + "/store", layout: layout) { Issue.record("\($0)") }
        }
        var store = try open()
        for _ in 0..<1500 {
            let step = work.step()
            step(store)
            step(model)
            work.compare(store, model)
            if work.random.oneIn(10) {
                store.flush()
                model.flush()
            }
            if work.random.oneIn(100) {
                store.close()
                model.flush()
                store = try open()
                work.compareAll(store, model)
            }
        }
        work.compareAll(store, model)
        // After the removal of all data the recorded size is zero.
        store.setServerData(.null, at: .root)
        #expect(store.serverDataBytes() == 0)
    }

    @Test func theSizeIsThatOfTheRows() throws {
        let folder = TemporaryFolder.path("store")
        defer { TemporaryFolder.remove(folder) }
        let store = try SQLiteClientStore(path: folder + "/store") { Issue.record("\($0)") }
        var work = StoreWork(seed: 9)
        for _ in 0..<500 { work.step()(store) }
        let before = store.serverDataBytes()
        let text = String(repeating: "x", count: 100_000)
        store.setServerData(.string(text), at: Path(splitting: "large"))
        #expect(store.serverDataBytes() > before + 99_000)
        store.setServerData(.null, at: Path(splitting: "large"))
        #expect(abs(store.serverDataBytes() - before) < 5_000)
    }
}

/// Random operations on a store.
struct StoreWork {
    var generator: TreeGenerator
    private var lastWrite: Int64 = 0

    init(seed: UInt64) { generator = TreeGenerator(seed: seed) }

    var random: SeededGenerator {
        get { generator.random }
        set { generator.random = newValue }
    }

    mutating func step() -> (any ClientStore) -> Void {
        switch random.below(20) {
        case 0...8:
            let path = generator.writablePath(maxDepth: 4)
            let node =
                path.namesPriority
                ? (random.oneIn(3) ? .null : generator.priority()) : generator.tree(depth: random.below(5))
            return { $0.setServerData(node, at: path) }
        case 9, 10:
            let path = generator.path(maxDepth: 3)
            let changes = generator.changes(atMost: 5, below: .root)
            return { $0.mergeServerData(changes, at: path) }
        case 11:
            let path = generator.path(maxDepth: 3)
            return { $0.setServerData(.null, at: path) }
        case 12:
            let path = random.oneIn(3) ? .root : generator.path(maxDepth: 2)
            let kept = (0..<(3 + random.below(20))).map { _ in generator.path(maxDepth: 4) }.filter { !$0.isRoot }
            return { $0.prune(below: path, keeping: kept) }
        case 13, 14:
            lastWrite += 1
            let write = PendingWrite(
                id: WriteID(rawValue: lastWrite), path: generator.path(maxDepth: 4),
                content: random.oneIn(2)
                    ? .overwrite(generator.tree(depth: 3)) : .merge(generator.changes(atMost: 4, below: .root)),
                name: random.oneIn(2) ? nil : WriteName(writer: "writer-\(random.below(3))", number: lastWrite))
            return { $0.save(write) }
        case 15:
            let id = WriteID(rawValue: Int64(random.below(Int(lastWrite) + 1)))
            return { $0.removeWrite(id) }
        default: return queryStep()
        }
    }

    private mutating func queryStep() -> (any ClientStore) -> Void {
        let id = Int64(random.below(5))
        let keys = Set((0..<random.below(6)).map { _ in generator.key() })
        switch random.below(5) {
        case 0:
            let query = Query(index: .value, limit: random.oneIn(2) ? nil : .last(1 + random.below(4)))
            let tracked = TrackedQuery(
                id: id, spec: QuerySpec(path: generator.path(maxDepth: 3), query: query),
                lastUse: Int64(random.below(1000)), isComplete: random.oneIn(2), isActive: random.oneIn(2),
                mark: random.oneIn(2) ? nil : LogMark("\(random.below(99))-x"))
            return { $0.save(tracked) }
        case 1: return { $0.setTrackedKeys(keys, of: id) }
        case 2:
            let others = Set((0..<random.below(6)).map { _ in generator.key() }).subtracting(keys)
            return { $0.updateTrackedKeys(adding: keys, removing: others, of: id) }
        case 3: return { $0.removeTrackedQuery(id) }
        default:
            let state = SignInState(
                isSignedIn: true, subject: random.oneIn(2) ? nil : generator.text(),
                expiresAt: random.oneIn(2) ? nil : 5)
            return { $0.save(state) }
        }
    }

    mutating func compare(_ store: any ClientStore, _ model: MemoryStore) {
        let path = generator.writablePath(maxDepth: 4)
        #expect(store.serverData(at: path) == model.serverData(at: path), "\(path)")
        let parent = generator.path(maxDepth: 2)
        let keys = Set((0..<random.below(6)).map { _ in generator.key() })
        #expect(
            store.serverData(at: parent, children: keys) == model.serverData(at: parent, children: keys), "\(parent)")
    }

    func compareAll(_ store: any ClientStore, _ model: MemoryStore) {
        #expect(store.serverData(at: .root) == model.serverData(at: .root))
        #expect(store.pendingWrites() == model.pendingWrites())
        #expect(store.signIn() == model.signIn())
        #expect(store.trackedQueries().sorted { $0.id < $1.id } == model.trackedQueries().sorted { $0.id < $1.id })
        for id in 0..<5 as Range<Int64> { #expect(store.trackedKeys(id) == model.trackedKeys(id)) }
    }
}
