import Testing
import Tree

/// Sequences of random writes against a dictionary of dictionaries.
struct ReplacingProperties {
    @Test(arguments: 0..<40 as Range<UInt64>)
    func `writes, rows and rebuilt trees agree with the model`(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        var tree = Node.null
        var model = ModelTree.null
        var stored: [[UInt8]: Node] = [:]
        for step in 0..<120 {
            var place = generator.path(maxDepth: 4)
            let value: Node
            if generator.random.oneIn(6) {
                place.append(.priority)
                value = generator.random.oneIn(3) ? .null : generator.priority()
            } else {
                value = generator.random.oneIn(4) ? .null : generator.tree(depth: generator.random.below(4))
            }
            let before = tree
            tree = tree.replacing(place, with: value)
            model = model.replacing(place.keys, with: value)
            #expect(ModelTree(tree) == model, "seed \(seed), step \(step), \(place) = \(json(value))")

            // The emitted rows turn the stored rows of the old tree into those of the new one.
            var diff = RowDiff(RowCollector())
            diff.compare(before, tree, changedAt: place)
            for row in diff.sink.rows {
                #expect(row.old != row.new)
                #expect(stored[row.pathBytes] ?? .null == row.old, "seed \(seed), step \(step), \(row.path)")
                stored[row.pathBytes] = row.new.isNull ? nil : row.new
            }
            #expect(stored == model.rows(), "seed \(seed), step \(step), \(place) = \(json(value))")
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

    /// No branch is empty, nothing holds null, and counts are sums.
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
