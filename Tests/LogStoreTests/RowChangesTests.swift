import LogStore
import TestSupport
import Testing
import Tree

/// Tests of the growth after a batch, on which the memory estimate is based.
@Suite struct RowChangesTests {
    private static func changes(_ writes: [[Change]], to tree: Node) -> (changes: RowChanges, after: Node) {
        var diff = RowDiff(RowChanges())
        var tree = tree
        for (number, write) in writes.enumerated() {
            diff.sink.seq = Int64(number) + 1
            let after = tree.replacing(write)
            for change in write { diff.compare(tree, after, changedAt: change.path) }
            tree = after
        }
        return (diff.sink, tree)
    }

    private static func text(_ count: Int) -> Node { .string(String(repeating: "x", count: count)) }

    private static func set(_ path: String, _ value: Node) -> [Change] {
        [Change(path: Path(splitting: path), value: value)]
    }

    @Test func overwritingAddsOnlyWhatIsMore() {
        let tree = Node.null.replacing(Self.set("/a", Self.text(200)))
        let (same, _) = Self.changes([Self.set("/a", .string(String(repeating: "y", count: 200)))], to: tree)
        #expect(same.textGrowth == 0)
        let (more, _) = Self.changes([Self.set("/a", Self.text(250)), Self.set("/a", Self.text(220))], to: tree)
        #expect(more.textGrowth == 20)
        let (fewer, _) = Self.changes([Self.set("/a", .int(1))], to: tree)
        #expect(fewer.textGrowth == -200)
    }

    /// Checks that long keys count like long texts.
    @Test func newPathsCount() {
        let key = String(repeating: "k", count: 700)
        let (changes, _) = Self.changes([Self.set("/\(key)/a", .int(1)), Self.set("/\(key)/a", .int(2))], to: .null)
        #expect(changes.textGrowth == 703)
    }

    /// Checks that a leaf's text is not subtracted once per child when the leaf becomes a branch, however often that
    /// happens.
    @Test func aLeafThatBecomesABranchTakesNothingOff() {
        let children = (0..<50).map { Change(path: Path(splitting: "/a/c\($0)"), value: Self.text(3)) }
        let (changes, _) = Self.changes(
            (0..<4).flatMap { _ in [Self.set("/a", Self.text(1_000)), children] }, to: .null)
        #expect(changes.textGrowth >= 150 + children.reduce(0) { $0 + $1.path.byteCount })
    }

    /// Checks that the estimate is never below the actual size, for random changes.
    @Test(arguments: 0..<20 as Range<UInt64>) func neverBelowTheTruth(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        func bytes(_ node: Node) -> Int {
            switch node {
            case .string(let text): text.utf8.count
            case .branch(let branch): branch.children.reduce(0) { $0 + bytes($1.node) }
            default: 0
            }
        }
        var tree = Node.null
        for _ in 0..<40 {
            let writes = (0..<8).map { _ -> [Change] in
                let path = (0...random.below(2)).map { _ in "/k\(random.below(4))" }.joined()
                let value = random.below(4) == 0 ? Node.null : Self.text(random.below(40))
                return Self.set(path, value)
            }
            let (changes, after) = Self.changes(writes, to: tree)
            #expect(changes.textGrowth >= bytes(after) - bytes(tree))
            tree = after
        }
    }
}
