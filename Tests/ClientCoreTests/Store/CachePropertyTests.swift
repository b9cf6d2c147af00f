import ClientCore
import TestSupport
import Testing
import Tree

/// Runs a model server with random listens, restarts and pruning: data with a listen is always served as the server has
/// it, and data without a listen is a former state of the server.
@Suite struct CachePropertyTests {
    @Test(arguments: 1...12 as ClosedRange<UInt64>) func whatIsListenedToIsServedExactly(seed: UInt64) {
        var server = ModelCacheServer(seed: seed)
        for _ in 0..<600 {
            server.step()
            server.check()
        }
    }
}

/// A model server that sends its changes to a cache.
struct ModelCacheServer {
    private var generator: TreeGenerator
    private let store = OddStore()
    private var cache: CacheManager
    private var tree: Node = .null
    private var active: [QuerySpec] = []
    private static let keys = ["a", "b", "c", "d", "1", "2"].map { Key($0) }

    init(seed: UInt64) {
        generator = TreeGenerator(seed: seed)
        // Depending on the seed, the cache has to prune all the time, or never.
        store.bytesFactor = seed % 2 == 0 ? 1 : 10_000
        cache = CacheManager(store: store)
    }

    private mutating func path(_ depth: Int) -> Path {
        Path((0..<generator.random.below(depth + 1)).map { _ in generator.random.pick(Self.keys) })
    }

    private mutating func spec() -> QuerySpec {
        let limits: [Query.Limit?] = [nil, .first(1), .first(3), .last(2)]
        let query = Query(
            index: generator.random.pick([.key, .value, .priority, .child(Path([Self.keys[0]]))]),
            limit: generator.random.pick(limits))
        return QuerySpec(path: path(2), query: query.selectsAll ? Query() : query)
    }

    mutating func step() {
        switch generator.random.below(12) {
        case 0...1:
            let spec = spec()
            guard !active.contains(spec) else { return }
            let served = cache.activate(spec)
            if served.isComplete { checkShape(of: served, for: spec) }
            active.append(spec)
            send(spec)
            cache.complete(spec)
        case 2...3:
            guard !active.isEmpty else { return }
            cache.deactivate(active.remove(at: generator.random.below(active.count)))
        case 4:
            cache.commit()
            store.restart()
            cache = CacheManager(store: store)
            let before = active
            active = []
            // Some paths are listened to again; the server sends its data.
            for spec in before where generator.random.oneIn(2) {
                #expect(cache.activate(spec).isComplete)
                active.append(spec)
                send(spec)
                cache.complete(spec)
            }
        case 5:
            // A write of the app that the server has accepted.
            let location = path(3)
            let node = generator.tree(depth: 2)
            change(location, node)
            cache.acknowledge(.overwrite(node), at: location)
        default: change(path(4), generator.random.oneIn(4) ? .null : generator.tree(depth: 2))
        }
    }

    /// Changes the server's tree, and sends the change to the affected listens.
    private mutating func change(_ location: Path, _ node: Node) {
        let old = tree
        tree = tree.replacing(location, with: node)
        for spec in active {
            if spec.loadsAllData {
                if spec.path.contains(location) {
                    cache.applyServer(tree[location], at: location, of: QuerySpec(path: location))
                } else if location.contains(spec.path) {
                    cache.applyServer(tree[spec.path], at: spec.path, of: QuerySpec(path: spec.path))
                }
                continue
            }
            let before = spec.query.select(from: old[spec.path])
            let after = spec.query.select(from: tree[spec.path])
            for key in Set(Self.children(before)).union(Self.children(after))
            where before.child(key) != after.child(key) {
                cache.applyServer([Change(path: Path([key]), value: after.child(key))], at: spec.path, of: spec)
            }
        }
    }

    private mutating func send(_ spec: QuerySpec) {
        let node = spec.loadsAllData ? tree[spec.path] : spec.query.select(from: tree[spec.path])
        cache.applyServer(node, at: spec.path, of: spec)
    }

    mutating func check() {
        for spec in active {
            let found = cache.cached(spec)
            #expect(found.isComplete, "\(spec)")
            if spec.loadsAllData {
                #expect(found.node == tree[spec.path], "\(spec)")
            } else {
                #expect(spec.query.select(from: found.node) == spec.query.select(from: tree[spec.path]), "\(spec)")
            }
        }
        let other = spec()
        checkShape(of: cache.cached(other), for: other)
    }

    private func checkShape(of found: CachedQuery, for spec: QuerySpec) {
        if let known = found.knownChildren {
            #expect(Set(Self.children(found.node)).isSubset(of: known))
        } else {
            #expect(found.isComplete)
        }
        #expect(found.isComplete || !found.node.isLeaf)
    }

    private static func children(_ node: Node) -> [Key] {
        guard case .branch(let branch) = node else { return [] }
        return branch.children.map(\.key)
    }
}
