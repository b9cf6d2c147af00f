import Testing
import Tree

/// Checks that the effect of an entry does not depend on the order of its changes.
struct ApplicationOrderTests {
    private func changes(_ texts: [(String, String)]) throws -> [Change] {
        try texts.map { Change(path: path($0.0), value: try node($0.1)) }
    }

    @Test func `each change has its step`() throws {
        #expect(try changes([("a", "1")])[0].step == .values)
        #expect(try changes([("a", "null")])[0].step == .removals)
        #expect(try changes([("a/.priority", "1")])[0].step == .priorities)
        // The removal of a priority is a priority's change, too.
        #expect(try changes([("a/.priority", "null")])[0].step == .priorities)
        #expect(try changes([(".priority", "1")])[0].step == .priorities)
    }

    @Test func `values come first, then removals, then priorities; else the order stays`() throws {
        let mixed = try changes([
            ("p/.priority", "1"), ("b", "null"), ("c", "1"), ("a", "null"), ("d", "2"), ("q/.priority", "null"),
        ])
        #expect(
            ApplicationOrder.sorted(mixed).map(\.path.description)
                == ["/c", "/d", "/b", "/a", "/p/.priority", "/q/.priority"])
        let sorted = ApplicationOrder.sorted(mixed)
        #expect(ApplicationOrder.sorted(sorted) == sorted)
        #expect(ApplicationOrder.sorted([]) == [])
    }

    @Test func `a node that loses all children and gets another keeps its priority`() throws {
        let before = try node(#"{"a":{"x":1,".priority":7}}"#)
        for order in [[("a/x", "null"), ("a/y", "2")], [("a/y", "2"), ("a/x", "null")]] {
            var tree = before
            for change in ApplicationOrder.sorted(try changes(order)) {
                tree = tree.replacing(change.path, with: change.value)
            }
            #expect(try tree == node(#"{"a":{"y":2,".priority":7}}"#))
        }
    }

    /// Every order of an entry's changes makes the same tree.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func `no order of the changes matters`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let before = generator.tree(depth: 4)
        var changes: [Change] = []
        for _ in 0..<8 {
            var location = generator.path(maxDepth: 3)
            let isPriority = generator.random.oneIn(3)
            if isPriority { location.append(.priority) }
            // No path at or below another, as in entries.
            if changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) { continue }
            let value = generator.random.oneIn(3) ? Node.null : generator.tree(depth: 2)
            changes.append(Change(path: location, value: isPriority ? generator.priority() : value))
        }
        var results: [Node] = []
        for _ in 0..<6 {
            var tree = before
            for change in ApplicationOrder.sorted(changes.shuffled(using: &generator.random)) {
                tree = tree.replacing(change.path, with: change.value)
            }
            results.append(tree)
        }
        #expect(results.allSatisfy { $0 == results[0] }, "seed \(seed)")
    }
}

/// Checks which changes of a part are applied in which pass over all parts.
struct PartPassesTests {
    private let value = Change(path: path("a"), value: .int(1))
    private let removal = Change(path: path("b"), value: .null)
    private let priority = Change(path: path("c/.priority"), value: .int(2))

    private func passes(_ parts: [[Change]]) -> [[String]] {
        var passes = PartPasses()
        var applied: [[String]] = []
        repeat {
            var selected: [Change] = []
            for part in parts { selected += passes.select(part) }
            applied.append(selected.map(\.path.description))
        } while passes.beginNextPass()
        return applied
    }

    @Test func `parts with values only are gone through once`() {
        #expect(passes([[value], [value]]) == [["/a", "/a"]])
        #expect(passes([]) == [[]])
        #expect(passes([[], []]) == [[]])
    }

    @Test func `removals and priorities each take another pass`() {
        #expect(passes([[removal], [value]]) == [["/a"], ["/b"]])
        #expect(passes([[priority, value]]) == [["/a"], ["/c/.priority"]])
        #expect(
            passes([[priority], [removal, value], [priority]]) == [["/a"], ["/b"], ["/c/.priority", "/c/.priority"]])
        #expect(passes([[removal]]) == [[], ["/b"]])
        #expect(passes([[priority]]) == [[], ["/c/.priority"]])
    }

    @Test func `the last pass says so more than once`() {
        var passes = PartPasses()
        _ = passes.select([value])
        let answers = [passes.beginNextPass(), passes.beginNextPass()]
        #expect(answers == [false, false] && passes.step == .values)
    }
}
