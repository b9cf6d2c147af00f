import Testing
import Tree

/// Compares sequences of random writes with a dictionary of dictionaries.
struct ReplacingProperties {
    @Test(arguments: 0..<40 as Range<UInt64>)
    func `writes, rows and rebuilt trees agree with the model`(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        var tree = Node.null
        var model = ModelTree.null
        var stored: [[UInt8]: Node] = [:]
        for step in 0..<120 {
            var path = generator.path(maxDepth: 4)
            let value: Node
            if generator.random.oneIn(6) {
                path.append(.priority)
                value = generator.random.oneIn(3) ? .null : generator.priority()
            } else {
                value = generator.random.oneIn(4) ? .null : generator.tree(depth: generator.random.below(4))
            }
            let before = tree
            tree = tree.replacing(path, with: value)
            model = model.replacing(path.keys, with: value)
            #expect(ModelTree(tree) == model, "seed \(seed), step \(step), \(path) = \(json(value))")

            // The emitted rows turn the stored rows of the old tree into those of the new one.
            var diff = RowDiff(RowCollector())
            diff.compare(before, tree, changedAt: path)
            for row in diff.sink.rows {
                #expect(row.old != row.new)
                #expect(stored[row.pathBytes] ?? .null == row.old, "seed \(seed), step \(step), \(row.path)")
                stored[row.pathBytes] = row.new.isNull ? nil : row.new
            }
            #expect(stored == model.rows(), "seed \(seed), step \(step), \(path) = \(json(value))")
            #expect(tree.rowCount == stored.count)
            #expect(Set(diff.sink.rows.map(\.pathBytes)).count == diff.sink.rows.count)
            checkShape(tree)
        }
        #expect(RowCollector.all(of: tree) == stored)
        #expect(RowCollector.tree(of: stored) == tree)
    }

    @Test(arguments: 100..<120 as Range<UInt64>)
    func `the order in which leaves are written does not matter`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let tree = generator.tree(depth: 4)
        let rows = ModelTree(tree).rows().map { (Path(splitting: String(decoding: $0.key, as: UTF8.self)), $0.value) }
        var rebuilt = Node.null
        for (path, value) in rows.shuffled(using: &generator.random) where !path.namesPriority {
            rebuilt = rebuilt.replacing(path, with: value)
        }
        for (path, value) in rows.shuffled(using: &generator.random) where path.namesPriority {
            rebuilt = rebuilt.replacing(path, with: value)
        }
        #expect(rebuilt == tree)
        #expect(rebuilt.hash == tree.hash)
    }

    @Test(arguments: 200..<260 as Range<UInt64>)
    func `changes at once are as one after another`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var tree = generator.tree(depth: 4)
        for step in 0..<60 {
            var changes: [Change] = []
            for _ in 0..<generator.random.below(60) {
                var path = generator.path(maxDepth: 4)
                var value = generator.random.oneIn(8) ? .null : generator.tree(depth: generator.random.below(3))
                if generator.random.oneIn(10) {
                    path.append(.priority)
                    value = generator.priority()
                }
                // Now and then paths overlap, unlike those of an entry: the order then decides as well.
                let overlaps = changes.contains { $0.path.contains(path) || path.contains($0.path) }
                if !overlaps || generator.random.oneIn(200) { changes.append(Change(path: path, value: value)) }
            }
            if !generator.random.oneIn(4) { changes = ApplicationOrder.sorted(changes) }
            let before = ModelTree(tree)
            let expected = changes.reduce(tree) { $0.replacing($1.path, with: $1.value) }
            let after = tree.replacing(changes)
            #expect(after == expected, "seed \(seed), step \(step), \(changes)")
            #expect(after.rowCount == expected.rowCount && after.hash == expected.hash)
            #expect(ModelTree(tree) == before)
            checkShape(after)
            tree = after.isNull ? generator.tree(depth: 4) : after
        }
    }

    @Test(arguments: [2, 100] as [Int64])
    func `changes that change nothing leave the very same tree`(count: Int64) {
        let changes = (0..<count).map { Change(path: Path(splitting: "/a/b\($0 % 3)/\($0)"), value: .int($0)) }
        let tree = Node.null.replacing(changes)
        #expect(tree.rowCount == Int(count))
        #expect(tree.replacing(changes.reversed()).isIdentical(to: tree))
        #expect(tree.replacing([]).isIdentical(to: tree))
    }

    /// Checks that no branch is empty or contains null, and that counts are sums.
    private func checkShape(_ node: Node) {
        guard case .branch(let branch) = node else { return }
        #expect(branch.children.count > 0)
        var rows = branch.priority.isNull ? 0 : 1
        var last: Key?
        for entry in branch.children {
            #expect(!entry.node.isNull)
            if let last { #expect(last < entry.key) }
            last = entry.key
            rows += entry.node.rowCount
            checkShape(entry.node)
        }
        #expect(branch.rowCount == rows)
    }
}
