import LogStore
import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that two writes that don't conflict give the same tree, and the same rows, in either order.
@Suite struct TouchedPathsTests {
    @Test(arguments: 1...6 as ClosedRange<UInt64>) func orderDoesNotMatter(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        var free = 0
        var conflicting = 0
        for _ in 0..<1_500 {
            let root = random.tree(depth: 3)
            guard let large = Self.evaluated(random.write(), on: root),
                let small = Self.evaluated(random.write(), on: root)
            else { continue }
            let touched = TouchedPaths(large.changes)
            guard !small.changes.contains(where: touched.conflicts) else {
                conflicting += 1
                continue
            }
            let afterSmall = small.after
            // `LargeWrite.take` has these additional conditions.
            guard !root.isNull, root.priority == afterSmall.priority, !large.after.isNull else { continue }
            free += 1
            let merged = Self.applied(small.changes, to: large.after)
            let inOrder = Self.applied(large.changes, to: afterSmall)
            #expect(merged == inOrder, "\(large.changes) before or after \(small.changes) in \(root)")
            var rows = Self.rows(afterSmall)
            for (path, value) in large.rows { rows[path] = value }
            #expect(
                rows.filter { !$0.value.isNull } == Self.rows(inOrder),
                "rows of \(large.changes), \(small.changes) in \(root)")
        }
        #expect(free > 50 && conflicting > 50)
    }

    private struct Evaluated {
        let changes: [Change]
        let after: Node
        let rows: [[UInt8]: Node]
    }

    private static func evaluated(_ write: Write, on root: Node) -> Evaluated? {
        let rules = RulesVersion(seq: 0, set: .denyAll)
        var evaluation = Evaluation(Snapshot(seq: 0, root: root, rules: rules), timestamp: 0)
        evaluation.apply(write)
        guard let step = evaluation.steps.first else { return nil }
        return Evaluated(
            changes: step.entry.changes, after: step.after, rows: difference(rows(root), rows(step.after)))
    }

    private static func applied(_ changes: [Change], to root: Node) -> Node {
        changes.reduce(root) { $0.replacing($1.path, with: $1.value) }
    }

    /// Returns every row of a tree.
    private static func rows(_ root: Node) -> [[UInt8]: Node] {
        var rows = RowDiff(Collected())
        rows.compare(.null, root, changedAt: .root)
        return rows.sink.rows
    }

    private static func difference(_ old: [[UInt8]: Node], _ new: [[UInt8]: Node]) -> [[UInt8]: Node] {
        var changed = new.filter { old[$0.key] != $0.value }
        for path in old.keys where new[path] == nil { changed[path] = .null }
        return changed
    }

    private struct Collected: RowSink {
        var rows: [[UInt8]: Node] = [:]
        mutating func row(_ path: [UInt8], old: Node, new: Node) { rows[path] = new }
    }
}
