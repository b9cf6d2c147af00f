import LogStore
import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks after which entries of other writers a large write can be placed, and the resulting tree.
@Suite struct MergedTreeTests {
    private static func snapshot(_ tree: String, seq: Int64 = 5) throws -> Snapshot {
        Snapshot(
            seq: seq, root: try JSONParser.parse(tree), rules: RulesVersion(seq: 0, set: .denyAll),
            batch: [UInt8(seq)])
    }

    private static func entry(
        _ seq: Int64, _ changes: [(String, String)], operation: Tree.Operation = .update, isBulk: Bool = false
    ) throws -> LoggedEntry {
        LoggedEntry(
            entry: Entry(
                seq: seq, committedAt: 0, operation: operation, path: .root,
                changes: try changes.map { Change(path: Path(splitting: $0.0), value: try JSONParser.parse($0.1)) },
                isBulk: isBulk), batchID: [UInt8(seq)])
    }

    /// Returns the merged tree of a write to one path.
    private static func merged(
        _ tree: String, _ path: String, _ value: String, condition: String? = nil
    ) throws -> MergedTree {
        let base = try snapshot(tree)
        let change = Change(path: Path(splitting: path), value: try JSONParser.parse(value))
        return MergedTree(
            base, after: base.root.replacing(change.path, with: change.value), changes: [change],
            condition: condition.map { Path(splitting: $0) })
    }

    @Test func nothingToTakeIsTaken() throws {
        var tree = try Self.merged("{\"a\":1}", "b", "2")
        #expect(tree.take([]) == true)
        #expect(tree.seq == 5 && tree.position.batch == [5] && tree.base.seq == 5)
        #expect(tree.root == (try JSONParser.parse("{\"a\":1,\"b\":2}")))
    }

    @Test func elsewhereIsTakenIn() throws {
        var tree = try Self.merged("{\"a\":1}", "b", "2")
        #expect(
            tree.take([try Self.entry(6, [("c/d", "3")]), try Self.entry(7, [("a", "null"), ("e", "4")])]) == true)
        #expect(tree.root == (try JSONParser.parse("{\"b\":2,\"c\":{\"d\":3},\"e\":4}")))
        #expect(tree.seq == 7 && tree.position.batch == [7])
        #expect(tree.base.seq == 5)
    }

    @Test(arguments: [
        ("b", "1"), ("b/c", "1"), ("b/c/d", "null"), ("", "{\"x\":1}"), ("b/.priority", "1"),
        ("b/other/.priority", "1"),
    ])
    func theSamePathsAreNot(path: String, value: String) throws {
        var tree = try Self.merged("{\"a\":1,\"b\":{\"c\":1}}", "b", "{\"c\":2,\"other\":1}")
        #expect(tree.take([try Self.entry(6, [(path, value)])]) == false)
    }

    /// A path with an expected value counts as read: an entry that changes it ends the merge.
    @Test(arguments: [("cond", true), ("cond/x", true), ("", true), ("other", false)])
    func whatItDependsOnIsNot(path: String, isRefused: Bool) throws {
        var tree = try Self.merged("{\"a\":1,\"cond\":{\"x\":1}}", "b", "2", condition: "cond")
        #expect(tree.take([try Self.entry(6, [(path, "{\"x\":3}")])]) == !isRefused)
    }

    @Test func gapsImportsAndRulesAreNot() throws {
        for entry in [
            try Self.entry(7, [("c", "1")]), try Self.entry(5, [("c", "1")]),
            try Self.entry(6, [("c", "1")], operation: .load, isBulk: true), try Self.entry(6, [], operation: .rules),
        ] {
            var tree = try Self.merged("{\"a\":1}", "b", "2")
            #expect(tree.take([entry]) == false)
        }
    }

    /// Entries were taken in before one that conflicts: the write is evaluated again all the same.
    @Test func theFirstThatConflictsEndsIt() throws {
        var tree = try Self.merged("{\"a\":1}", "b", "2")
        #expect(
            tree.take([
                try Self.entry(6, [("c", "1")]), try Self.entry(7, [("b", "1")]), try Self.entry(8, [("d", "1")]),
            ]) == false)
        #expect(tree.seq == 6)
    }

    /// The root's own priority is removed with its last child: the order then matters although the paths are disjoint.
    @Test func aRootThatWasEmptyInBetween() throws {
        var tree = try Self.merged("{\".priority\":7,\"a\":1}", "b", "2")
        #expect(tree.take([try Self.entry(6, [("c", "3")])]) == true)
        var emptied = try Self.merged("null", "b", "2")
        #expect(
            emptied.take([try Self.entry(6, [("c", "3")])]) == false, "there was nothing that could have a priority")
    }

    /// Other writers remove the last child that existed before the write, and the priority with it.
    @Test(arguments: ["{\".priority\":7,\"a\":1}", "{\".priority\":7,\".value\":1}"])
    func aPriorityThatGoesBeforeTheWrite(tree: String) throws {
        var merged = try Self.merged(tree, "b", "2")
        #expect(merged.take([try Self.entry(6, [("a", "3")])]) == true)
        #expect(merged.take([try Self.entry(7, [("a", "null")])]) == false)
    }

    /// With any entries taken in, the tree equals the result of all entries in order.
    @Test(arguments: 1...10 as ClosedRange<UInt64>) func asInOrder(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        var (taken, refused) = (0, 0)
        for _ in 0..<150 {
            let rules = RulesVersion(seq: 0, set: .denyAll)
            let base = Snapshot(seq: 0, root: random.tree(depth: 3), rules: rules)
            var large = Evaluation(base, timestamp: 0)
            large.apply(random.write())
            guard let step = large.steps.first else { continue }
            var merged = MergedTree(base, after: step.after, changes: step.entry.changes, condition: nil)
            var others = Evaluation(base, timestamp: 0)
            for _ in 0..<3 { others.apply(random.write()) }
            let entries = others.steps.map { LoggedEntry(entry: $0.entry, batchID: [1]) }
            guard !entries.isEmpty, merged.take(entries) else {
                refused += 1
                continue
            }
            taken += 1
            let inOrder = step.entry.changes.reduce(others.root) { $0.replacing($1.path, with: $1.value) }
            #expect(
                merged.root == inOrder,
                "\(step.entry.changes) behind \(entries.flatMap(\.entry.changes)) in \(base.root)")
            #expect(merged.seq == others.head)
        }
        #expect(taken > 3 && refused > 3, "\(taken), \(refused)")
    }
}
