import TestSupport
import Testing
import Tree

@testable import Engine

@Suite struct PriorityCheckTests {
    /// The check agrees with the plain definition on random updates.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func asDefined(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        var found = 0
        for _ in 0..<500 {
            let root = random.tree(depth: 2)
            let base = random.path(maxDepth: 1)
            var changes = random.changes(atMost: 4, below: base)
            for _ in 0..<random.random.below(3) {
                changes.append(Change(path: random.path(maxDepth: 2).appending(.priority), value: .int(1)))
            }
            let problem = PriorityCheck.problem(changes, in: root) != nil
            #expect(problem == isWrong(changes, root), "\(changes) in \(root)")
            if problem { found += 1 }
        }
        #expect(found > 20 && found < 480)
    }

    private func isWrong(_ changes: [Change], _ root: Node) -> Bool {
        changes.contains { change in
            guard change.path.namesPriority, !change.value.isNull, let parent = change.path.parent,
                root[parent].isNull
            else { return false }
            return !changes.contains { other in
                !other.path.namesPriority && !other.value.isNull
                    && (other.path.contains(parent) || parent.contains(other.path))
            }
        }
    }

    /// Checks 40,000 priorities of missing nodes, which took a minute when each was compared with each.
    @Test func manyAreLinear() {
        let changes = (0..<40_000).map {
            Change(path: Path(splitting: "k\($0)/.priority"), value: .int(1))
        }
        let made = (0..<40_000).map { Change(path: Path(splitting: "k\($0)/x"), value: .int(1)) }
        #expect(PriorityCheck.problem(changes, in: .null) != nil)
        #expect(PriorityCheck.problem(changes + made, in: .null) == nil)
    }
}
