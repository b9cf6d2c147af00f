import Testing
import Tree

/// Compares positions in an order with sorting.
@Suite struct OrderedIndexRankTests {
    @Test(arguments: [1, 2, 3] as [UInt64]) func ranksAreThoseOfTheSortedChildren(seed: UInt64) throws {
        var state = seed
        func below(_ limit: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % limit
        }
        let query = Query(index: .value)
        var node = Node(children: (0..<300).map { (Key("k\($0)"), Node.int(Int64(below(40)))) })
        guard case .branch(let branch) = node else { return }
        var index = OrderedIndex(branch, by: .value)
        for _ in 0..<60 {
            let keys = (0..<3).map { _ in Key("k\(below(320))") }
            for key in keys { node = node.replacingChild(key, with: below(3) == 0 ? .null : .int(Int64(below(40)))) }
            guard case .branch(let newer) = node else { return }
            index = index.updated(to: newer, changing: keys)
            let sorted = newer.children.sorted {
                let order = ValueOrder.compare($0.node, $1.node)
                return order == 0 ? $0.key < $1.key : order < 0
            }
            #expect(index.count == sorted.count)
            for (rank, entry) in sorted.enumerated() {
                #expect(index.key(at: rank) == entry.key && index.rank(of: entry.key, entry.node) == rank)
            }
            var limited = query
            limited.start = .init(value: .init(.int(20)))
            limited.limit = .last(4)
            let keysInRange = index.ranks(of: limited).map { index.key(at: $0) }
            #expect(Set(keysInRange) == Self.keys(limited.select(from: node)))
            #expect(index.select(limited) == limited.select(from: node))
        }
    }

    @Test func replacingAChildIsReplacingAPathOfOneKey() {
        let leaf = Node.int(1).withPriority(.string("p"))
        let branch = Node(children: [(Key("a"), .int(1))], priority: .int(2))
        for node in [Node.null, .int(3), leaf, branch] {
            for value in [Node.null, .int(4), branch] {
                for key in [Key("a"), Key("b")] {
                    #expect(node.replacingChild(key, with: value) == node.replacing(Path([key]), with: value))
                }
            }
        }
    }

    private static func keys(_ node: Node) -> Set<Key> {
        guard case .branch(let branch) = node else { return [] }
        return Set(branch.children.map(\.key))
    }
}
