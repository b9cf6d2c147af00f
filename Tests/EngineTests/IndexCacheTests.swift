import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that a query selects the same children with and without a cached index while the tree changes.
@Suite struct IndexCacheTests {
    /// Returns a node with `count` children, each with a few values to order by.
    private static func wide(_ count: Int, _ random: inout SeededGenerator) -> Node {
        Node(children: (0..<count).map { number in (Key("k\(number)"), child(&random)) })
    }

    private static func child(_ random: inout SeededGenerator) -> Node {
        Node(
            children: [(Key("n"), .int(Int64(random.below(50)))), (Key("s"), .string("t\(random.below(9))"))],
            priority: random.oneIn(3) ? .int(Int64(random.below(5))) : .null)
    }

    private static func query(_ random: inout SeededGenerator) -> Query {
        let index = random.pick([
            Query.Index.child(Path(splitting: "n")), .child(Path(splitting: "s")), .priority, .value, .key,
        ])
        func bound() -> Query.Bound? {
            guard !random.oneIn(3) else { return nil }
            let value: Node = index == .key ? .string("k\(random.below(400))") : .int(Int64(random.below(50)))
            return Query.Bound(value: Query.IndexValue(value))
        }
        let limit = random.pick([nil, .first(1 + random.below(20)), .last(1 + random.below(20))] as [Query.Limit?])
        return Query(index: index, start: bound(), end: bound(), limit: limit)
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>) func asWithoutAnIndex(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let cache = IndexCache()
        let path = Path(splitting: "wide")
        var node = Self.wide(300, &random)
        for _ in 0..<60 {
            for _ in 0..<random.below(20) {
                let key = Path(splitting: "k\(random.below(330))")
                node = node.replacing(key, with: random.oneIn(4) ? .null : Self.child(&random))
            }
            let query = Self.query(&random)
            let found = cache.select(
                query, from: node, at: path, isDeclared: random.oneIn(2), isFollowed: random.oneIn(2))
            #expect(found == query.select(from: node), "\(query)")
        }
    }

    /// A query on an older tree gets the data of that tree.
    @Test func olderTreesHaveTheirOwnAnswers() {
        var random = SeededGenerator(seed: 7)
        let cache = IndexCache()
        let query = Query(index: .child(Path(splitting: "n")), limit: .last(5))
        let old = Self.wide(300, &random)
        let new = old.replacing(Path(splitting: "k3/n"), with: .int(1_000)).replacing(
            Path(splitting: "k4"), with: .null)
        for node in [old, new, old, new, new, old] {
            #expect(cache.select(query, from: node, at: .root, isDeclared: true) == query.select(from: node))
        }
    }

    /// Each path and each order has an index of its own.
    @Test func pathsAreDistinguished() {
        var random = SeededGenerator(seed: 8)
        let cache = IndexCache()
        let nodes = (0..<4).map { _ in Self.wide(270, &random) }
        for _ in 0..<3 {
            for (number, node) in nodes.enumerated() {
                for index in [Query.Index.child(Path(splitting: "n")), .priority, .value] {
                    let query = Query(index: index, limit: .first(3))
                    let found = cache.select(query, from: node, at: Path(splitting: "p\(number)"), isDeclared: true)
                    #expect(found == query.select(from: node))
                }
            }
        }
    }

    /// More indexes than are cached, and more children than may be indexed undeclared, make queries slower, but not
    /// wrong.
    @Test func beyondItsBounds() {
        var random = SeededGenerator(seed: 9)
        let cache = IndexCache()
        let node = Self.wide(260, &random)
        let query = Query(index: .child(Path(splitting: "n")), limit: .first(4))
        let expected = query.select(from: node)
        for number in 0..<700 {
            let path = Path(splitting: "p\(number % 350)")
            #expect(
                cache.select(query, from: node, at: path, isDeclared: number % 3 == 0, isFollowed: true) == expected)
        }
    }

    @Test(arguments: [Node.null, .int(1), .string("x"), Node(children: [(Key("a"), .int(1))])])
    func smallThingsNeedNoIndex(node: Node) {
        let cache = IndexCache()
        let query = Query(index: .value, limit: .last(1))
        #expect(cache.select(query, from: node, at: .root, isDeclared: true) == query.select(from: node))
    }

    @Test func manyThreads() {
        var random = SeededGenerator(seed: 10)
        let cache = IndexCache()
        let first = Self.wide(300, &random)
        let trees = (0..<5).map { first.replacing(Path(splitting: "k\($0)/n"), with: .int(100 + Int64($0))) }
        let query = Query(index: .child(Path(splitting: "n")), limit: .last(10))
        let expected = trees.map { query.select(from: $0) }
        let wrong = MutexBox(0)
        let threads = (0..<4).map { _ in
            Thread(name: "reader") {
                for round in 0..<100 {
                    let number = round % trees.count
                    let found = cache.select(query, from: trees[number], at: .root, isDeclared: true)
                    if found != expected[number] { wrong.withLock { $0 += 1 } }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(wrong.withLock { $0 } == 0)
    }
}
