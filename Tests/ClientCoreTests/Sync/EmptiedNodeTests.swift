import TestSupport
import Testing
import Tree

@testable import ClientCore

/// Checks that the client shows its writes as the server applies them one after another, including the priorities of
/// emptied nodes.
@Suite struct EmptiedNodeTests {
    private let path = Path([Key("a")])

    private func overwrite(_ tree: SyncTree, _ id: Int64, _ path: Path, _ value: Node) {
        let content = PendingWrite.Content.overwrite(value)
        _ = tree.apply(PendingWrite(id: WriteID(rawValue: id), path: path, content: content), estimate: content)
    }

    private func tree(_ value: Node) -> SyncTree {
        let tree = SyncTree()
        _ = tree.add(Registration(id: RegistrationID(rawValue: 1), spec: QuerySpec(path: path), kinds: .value))
        _ = tree.applyServer(value, at: path, tag: nil)
        return tree
    }

    @Test func aNodeThatWasEmptyForAMomentHasNoPriority() {
        let tree = tree(Node(children: [(Key("x"), .int(1))]).withPriority(.int(5)))
        overwrite(tree, 1, path.appending(Key("x")), .null)
        #expect(tree.localValue(at: path) == .null)
        overwrite(tree, 2, path.appending(Key("y")), .int(2))
        #expect(tree.localValue(at: path) == Node(children: [(Key("y"), .int(2))]))
    }

    @Test func aNodeThatWasFilledFirstKeepsIts() {
        let tree = tree(Node(children: [(Key("x"), .int(1))]).withPriority(.int(5)))
        overwrite(tree, 1, path.appending(Key("y")), .int(2))
        overwrite(tree, 2, path.appending(Key("x")), .null)
        #expect(tree.localValue(at: path) == Node(children: [(Key("y"), .int(2))]).withPriority(.int(5)))
    }

    /// The priority came between a write that is refused and later writes that hide it: it has found no node, and
    /// listeners see this at once.
    @Test func aPriorityThatHasFoundNothing() {
        let tree = tree(.null)
        overwrite(tree, 1, path.appending(Key("x")), .int(1))
        overwrite(tree, 2, path.appending(.priority), .int(5))
        overwrite(tree, 3, path.appending(Key("x")), .int(2))
        overwrite(tree, 4, path.appending(Key("y")), .int(3))
        let both = Node(children: [(Key("x"), .int(2)), (Key("y"), .int(3))])
        #expect(tree.localValue(at: path) == both.withPriority(.int(5)))
        let events = tree.acknowledge(WriteID(rawValue: 1), isRefused: true).events
        #expect(tree.localValue(at: path) == both)
        #expect(events.map(\.node) == [both])
    }

    /// The server's priority was lost by a write that is refused, and is shown again.
    @Test func aPriorityThatIsKeptAfterAll() {
        let value = Node(children: [(Key("x"), .int(1))]).withPriority(.int(5))
        let tree = tree(value)
        overwrite(tree, 1, path.appending(Key("x")), .null)
        overwrite(tree, 2, path.appending(Key("x")), .int(2))
        let events = tree.acknowledge(WriteID(rawValue: 1), isRefused: true).events
        #expect(events.map(\.node) == [value.replacingChild(Key("x"), with: .int(2))])
    }

    /// The server has a leaf, and writes below it have made it a branch: without them it is a leaf again, though a path
    /// in between has had a priority.
    @Test func aLeafThatWasABranchIsALeafAgain() {
        let tree = tree(.int(2))
        overwrite(tree, 1, path.appending(Key("x")).appending(Key("y")), .int(1))
        overwrite(tree, 2, path.appending(Key("x")).appending(.priority), .int(5))
        let events = tree.acknowledge(WriteID(rawValue: 1), isRefused: true).events
        #expect(events.map(\.node) == [.int(2)])
    }

    /// Compares random writes over a random value with a tree to which they are applied in order.
    @Test(arguments: [11, 12, 13, 14] as [UInt64]) func againstTheWritesInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let keys = ["x", "y", "z"].map { Key($0) }
        for round in 0..<400 {
            var model = Node(children: keys.prefix(1 + random.below(2)).map { ($0, .int(1)) })
            if random.below(2) == 0 { model = model.withPriority(.int(7)) }
            if random.below(3) == 0 { model = model.replacingChild(keys[0], with: model) }
            let tree = tree(model)
            for id in 1...Int64(1 + random.below(6)) {
                var location = Path([keys[random.below(3)]])
                if random.below(3) == 0 { location = location.appending(keys[random.below(3)]) }
                if random.below(6) == 0 { location = location.appending(.priority) }
                let value: Node = random.below(2) == 0 ? .null : .int(Int64(random.below(4)))
                overwrite(tree, id, path.appending(location), value)
                model = model.replacing(location, with: value)
                let found = tree.localValue(at: path)
                #expect(found == model, "seed \(seed), round \(round), write \(id)")
                if found != model { return }
            }
        }
    }
}
