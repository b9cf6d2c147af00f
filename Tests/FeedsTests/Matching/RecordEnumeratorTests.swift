import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests the enumeration of records that differ between two trees against a comparison of all records.
@Suite struct RecordEnumeratorTests {
    private static let patterns = [
        "/a", "/{x}", "/a/{x}", "/{x}/b", "/{x}/{y}", "/a/b", "/a/{x}/1", "/{x}/1/{y}", "/a/{x}/{y}/{z}", "/10/{x}/b",
    ]

    /// Returns all records of a pattern in a tree.
    private func records(_ pattern: PathPattern, in root: Node) -> [Path] {
        var found: [(path: Path, node: Node)] = [(.root, root)]
        for part in pattern.parts {
            found = found.flatMap { path, node -> [(path: Path, node: Node)] in
                switch part {
                case .key(let key): return [(path.appending(key), node.child(key))]
                case .capture:
                    guard case .branch(let branch) = node else { return [] }
                    return branch.children.map { (path.appending($0.key), $0.node) }
                }
            }
        }
        return found.filter { !$0.node.isNull }.map(\.path)
    }

    private func all(_ enumerator: RecordEnumerator) -> [RecordDifference] {
        var enumerator = enumerator
        var changes: [RecordDifference] = []
        while let change = enumerator.nextChange() { changes.append(change) }
        return changes
    }

    @Test(arguments: 0..<10) func anyWrites(_ part: UInt64) throws {
        var generator = TreeGenerator(seed: part)
        for round in 0..<150 {
            let pattern = try PathPattern(Self.patterns[round % Self.patterns.count])
            let before = generator.tree(depth: 4)
            var after = before
            var paths: [Path] = []
            let changes =
                generator.random.oneIn(2)
                ? generator.changes(atMost: 5, below: generator.path(maxDepth: 1))
                : [
                    Change(
                        path: generator.writablePath(maxDepth: 4),
                        value: generator.random.oneIn(3) ? .null : generator.tree(depth: 3))
                ]
            for change in changes {
                let value = change.path.namesPriority && !change.value.isNull ? generator.priority() : change.value
                after = after.replacing(change.path, with: value)
                paths.append(change.path)
            }
            let wanted = Set(records(pattern, in: before) + records(pattern, in: after)).filter {
                before[$0] != after[$0]
            }
            let known = all(RecordEnumerator(pattern, before: before, after: after, paths: paths))
            let unknown = all(RecordEnumerator(pattern, before: before, after: after, paths: nil))
            let what = Comment(rawValue: "seed \(part), round \(round), pattern \(pattern), places \(paths)")
            #expect(Set(unknown.map(\.path)) == wanted, what)
            #expect(known.map(\.path) == unknown.map(\.path), what)
            #expect(Set(known.map(\.path)).count == known.count, what)
            for change in known + unknown {
                #expect(change.before == before[change.path] && change.after == after[change.path], what)
            }
        }
    }

    /// Checks that a copy of an enumerator continues at the same record.
    @Test func itStopsAnywhere() throws {
        var generator = TreeGenerator(seed: 99)
        let pattern = try PathPattern("/{x}/{y}")
        for _ in 0..<100 {
            let before = generator.tree(depth: 3)
            let after = generator.tree(depth: 3)
            var enumerator = RecordEnumerator(pattern, before: before, after: after, paths: nil)
            let paths = all(enumerator).map(\.path)
            for count in 0..<paths.count {
                #expect(all(enumerator).map(\.path) == Array(paths[count...]))
                _ = enumerator.nextChange()
            }
        }
    }
}
