import TestSupport
import Testing
import Tree

@testable import Wire

/// Compares hashes, differences and their application with a model that lists all leaves of a tree.
@Suite struct RangeModelTests {
    /// Keys before and after `.priority`, integers and ties, and marks beyond the first plane.
    private static let keys = [
        "0", "2", "10", "01", "-1", "-0", "!", "-", "-Na", "-Nb", "+", ",", "a", "b", "a b", "ab", "é", "e\u{301}", "😀",
        "～", "\"", "\\",
    ].map { Key($0) }

    private struct Generator {
        var random: SeededGenerator
        var trees: TreeGenerator

        init(seed: UInt64) {
            random = SeededGenerator(seed: seed &* 7919)
            trees = TreeGenerator(seed: seed)
        }

        mutating func key() -> Key { random.pick(RangeModelTests.keys) }

        mutating func tree(depth: Int) -> Node {
            let priority: Node = random.oneIn(2) ? .null : random.oneIn(2) ? .int(Int64(random.below(3))) : .string("p")
            if depth == 0 || random.oneIn(5) { return trees.bareLeaf().withPriority(priority) }
            let most = random.oneIn(12) ? 60 : 6
            let children = (0..<random.below(most)).map { number in
                (most > 6 ? Key("k\(number)") : key(), tree(depth: most > 6 ? 0 : depth - 1))
            }
            return Node(children: children, priority: priority)
        }

        /// A path that often exists.
        mutating func path(in node: Node) -> Path {
            var path = Path()
            for _ in 0..<5 {
                if random.oneIn(5) { break }
                guard case .branch(let branch) = node[path], !random.oneIn(6) else {
                    path.append(key())
                    continue
                }
                path.append(random.pick(branch.children.map(\.key)))
            }
            return random.oneIn(8) ? path.appending(.priority) : path
        }

        mutating func changed(_ node: Node) -> Node {
            var node = node
            for _ in 0..<random.below(5) {
                let path = path(in: node)
                if path.namesPriority {
                    node = node.replacing(path, with: random.oneIn(2) ? .null : .int(Int64(random.below(5))))
                } else {
                    node = node.replacing(path, with: random.oneIn(3) ? .null : tree(depth: 2))
                }
            }
            return node
        }

        mutating func row(in node: Node) -> LeafRow {
            let path = path(in: node)
            if path.namesPriority { return LeafRow(path: path, value: .int(Int64(random.below(5)))) }
            let leaf = trees.bareLeaf()
            return LeafRow(path: path, value: random.oneIn(3) ? leaf.withPriority(.string("q")) : leaf)
        }

        /// A range with leaves that may contradict each other.
        mutating func range(in node: Node) -> RangeMerge {
            let start = random.oneIn(4) ? nil : path(in: node)
            let end = random.oneIn(4) ? nil : path(in: node)
            let all = (0..<random.below(6)).map { _ in row(in: node) }
            let bounds = RangeMerge(start: start, end: end, rows: [])
            return RangeMerge(
                start: start, end: end,
                rows: all.filter { bounds.includes($0.path) }.sorted { RangeMerge.order($0.path, $1.path) < 0 })
        }
    }

    private func text(_ node: Node) -> String { string(JSONWriter.encode(node, form: .export)) }

    @Test(arguments: 1...8 as ClosedRange<UInt64>) func hashesAreThoseOfTheModel(seed: UInt64) {
        var generator = Generator(seed: seed)
        for round in 0..<150 {
            let tree = generator.tree(depth: 4)
            for partBytes in [0, 20, 90, 400] {
                #expect(
                    CompoundHash(of: tree, partBytes: partBytes) == CompoundHash(modelOf: tree, partBytes: partBytes),
                    "seed \(seed), round \(round): \(text(tree))")
            }
            #expect(CompoundHash(of: tree) == CompoundHash(modelOf: tree))
            #expect(tree.lastLeafPath == ModelRows(tree).rows.last?.path)
        }
    }

    /// The leaves in a range are those of the model.
    @Test(arguments: 11...14 as ClosedRange<UInt64>) func partsOfTheLeaves(seed: UInt64) {
        var generator = Generator(seed: seed)
        for _ in 0..<300 {
            let tree = generator.tree(depth: 4)
            let range = generator.range(in: tree)
            let found = LeafWalk.rows(tree, after: range.start, through: range.end)
            #expect(found == ModelRows(tree).rows.filter { range.includes($0.path) }, "\(text(tree)), \(range)")
        }
    }

    @Test(arguments: 21...28 as ClosedRange<UInt64>) func differencesAreThoseOfTheModel(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        for round in 0..<200 {
            let server = generator.tree(depth: 4)
            let client = generator.random.oneIn(6) ? generator.tree(depth: 3) : generator.changed(server)
            let partBytes = generator.random.pick([0, 0, 25, 100, 500])
            let hash =
                generator.random.oneIn(2)
                ? CompoundHash(of: client, partBytes: partBytes)
                : try SDKCache(client, seed: 1).compoundHash(partBytes: partBytes)
            let found = RangeMerge.differences(server, hash)
            let here: Comment = "seed \(seed), round \(round): \(text(client)) to \(text(server))"
            #expect(found == RangeMerge.modelDifferences(server, hash), here)
            let applied = RangeMerge.apply(found, to: client)
            #expect(applied == RangeMerge.modelApply(found, to: client), here)
            #expect(applied.hash == RangeMerge.modelApply(found, to: client).hash, here)
        }
    }

    /// Ranges of any server: out of order, overlapping, with an end before the start, and with leaves below leaves.
    @Test(arguments: 31...42 as ClosedRange<UInt64>) func anyRangesAreAppliedLikeTheModel(seed: UInt64) {
        var generator = Generator(seed: seed)
        for round in 0..<500 {
            let client = generator.tree(depth: generator.random.below(5))
            var ranges = (0..<generator.random.below(6)).map { _ in generator.range(in: client) }
            if generator.random.oneIn(2) {
                ranges.sort { left, right in
                    guard let end = left.end, let other = right.end else { return left.end != nil && right.end == nil }
                    return RangeMerge.order(end, other) < 0
                }
            }
            let applied = RangeMerge.apply(ranges, to: client)
            let model = RangeMerge.modelApply(ranges, to: client)
            #expect(applied == model, "seed \(seed), round \(round): \(text(client)) by \(ranges)")
            #expect(text(applied) == text(model))
            #expect(applied.rowCount == model.rowCount)
        }
    }

    @Test func unorderedPostsAreAnsweredWithEverything() throws {
        let node = try JSONParser.parse("{\"a\":1,\"b\":2,\"c\":{\"d\":3,\".priority\":4}}")
        let posts = ["c", "a", "b"].map { Path(splitting: $0) }
        let hash = try #require(CompoundHash(posts: posts, hashes: ["", "", "", ""]))
        let found = RangeMerge.differences(node, hash)
        #expect(found.count == 1 && found[0].start == nil && found[0].end == nil)
        #expect(RangeMerge.apply(found, to: .int(7)) == node)
    }

    /// Hashes of a query's data are those of a node with its children only.
    @Test(arguments: [51, 52, 53] as [UInt64]) func hashesOfRanges(seed: UInt64) {
        var generator = Generator(seed: seed)
        for _ in 0..<200 {
            let tree = generator.tree(depth: 4)
            let first = generator.random.oneIn(3) ? nil : generator.key()
            let last = generator.random.oneIn(3) ? nil : generator.key()
            var children: [(Key, Node)] = []
            if case .branch(let branch) = tree {
                for entry in branch.children where (first ?? entry.key) <= entry.key && entry.key <= (last ?? entry.key)
                {
                    children.append((entry.key, entry.node))
                }
            }
            let part = Node(children: children)
            #expect(CompoundHash(of: tree, keysFrom: first, through: last) == CompoundHash(modelOf: part))
            #expect(tree.restricted(toKeysFrom: first, through: last).hash == part.hash)
        }
    }

    @Test func deepTrees() {
        var tree = Node.int(1)
        for level in 0..<32 {
            let others = [(Key("!"), Node.bool(true)), (Key("z"), Node.string("\(level)"))]
            tree = Node(children: [(Key("m"), tree)] + others, priority: .int(Int64(level)))
        }
        let place = Path([Key](repeating: Key("m"), count: 32))
        let client = tree.replacing(place, with: .int(2)).replacing(place.prefix(9).appending(.priority), with: .null)
        for partBytes in [0, 10, 100, 1_000] {
            let hash = CompoundHash(of: client, partBytes: partBytes)
            #expect(hash == CompoundHash(modelOf: client, partBytes: partBytes))
            let found = RangeMerge.differences(tree, hash)
            #expect(found == RangeMerge.modelDifferences(tree, hash))
            #expect(RangeMerge.apply(found, to: client) == tree)
        }
    }

    // MARK: Cost

    private static let many = Node(
        children: (0..<300).map { group in
            (
                Key("g\(group)"),
                Node(
                    children: (0..<300).map {
                        (Key("r\($0)"), Node(children: [(Key("a"), .int($0)), (Key("b"), .bool(true))]))
                    }, priority: .int(1))
            )
        })

    /// A client's tree shares everything with the tree before, except for the path of the change.
    @Test func untouchedPartsAreShared() throws {
        let client = Self.many.replacing(Path(splitting: "g150/r150/a"), with: .int(-1))
        let found = RangeMerge.differences(Self.many, CompoundHash(of: client))
        #expect(found.count == 1)
        let applied = RangeMerge.apply(found, to: client)
        #expect(applied == Self.many)
        #expect(AdditionalHeap(client).bytes(of: [applied]) * 100 < client.heapBytes)
        #expect(applied.child(Key("g10")).isIdentical(to: client.child(Key("g10"))))
        // Ranges without an effect change nothing.
        let nothing = RangeMerge(start: Path(splitting: "g3/zz"), end: Path(splitting: "g3/zzz"), rows: [])
        #expect(RangeMerge.apply([nothing], to: client).isIdentical(to: client))
    }

    /// Thousands of ranges cost as much as their own paths, and a range that removes everything costs nothing.
    @Test func manyRangesCostLittle() {
        var ranges: [RangeMerge] = []
        for number in 0..<5_000 {
            let start = Path(splitting: "g150/r\(number % 300)/a/\(number)/x/x/x/x/x/x/x/x/x/x/x/x")
            ranges.append(RangeMerge(start: start, end: start.appending(Key("y")), rows: []))
        }
        let clock = ContinuousClock()
        var applied = Node.null
        let time = clock.measure {
            for _ in 0..<10 { applied = RangeMerge.apply(ranges, to: Self.many) }
            for _ in 0..<1_000 {
                let all = RangeMerge(start: nil, end: nil, rows: [LeafRow(path: .root, value: .int(1))])
                _ = RangeMerge.apply([all], to: Self.many)
            }
        }
        #expect(applied == Self.many)
        // The model takes a tenth of a second for each message.
        #expect(time < .seconds(60))
    }
}
