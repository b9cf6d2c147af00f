import TestSupport
import Testing
import Tree

@testable import Wire

/// The clients' data structure for disconnect operations (reference: rtdb-protocol 9): a tree with values at some
/// paths.
private struct SparseTree {
    private var value: Node?
    private var children: [Key: SparseTree] = [:]

    mutating func remember(_ path: ArraySlice<Key>, _ new: Node) {
        guard let first = path.first else {
            value = new
            children = [:]
            return
        }
        if let value {
            self.value = value.replacing(Path(Array(path)), with: new)
        } else {
            children[first, default: SparseTree()].remember(path.dropFirst(), new)
        }
    }

    /// Removes the values at a path. Returns true if the tree is then empty.
    mutating func forget(_ path: ArraySlice<Key>) -> Bool {
        guard let first = path.first else { return true }
        if let value {
            // A leaf, or a removal, has no part that could be removed.
            guard case .branch(let branch) = value else { return false }
            self.value = nil
            for entry in branch.children { remember([entry.key], entry.node) }
        }
        if children[first]?.forget(path.dropFirst()) == true { children[first] = nil }
        return children.isEmpty
    }

    func apply(_ path: Path, to root: inout Node) {
        if let value {
            root = root.replacing(path, with: value)
        } else {
            for (key, child) in children { child.apply(path.appending(key), to: &root) }
        }
    }
}

@Suite struct RealtimeDisconnectTests {
    private func path(_ text: String) -> Path { Path(splitting: text) }

    private func change(_ location: String, _ value: Node) -> Change { Change(path: path(location), value: value) }

    private func plain(_ node: Node) -> Node {
        guard case .branch(let branch) = node else { return node.withoutPriority }
        return Node(children: branch.children.map { ($0.key, plain($0.node)) })
    }

    @Test func aLaterOrderReplacesEarlierOnesBelow() {
        var queue = DisconnectQueue()
        queue.put(path("a/b"), .int(1))
        queue.put(path("c"), .int(2))
        queue.put(path("a"), .int(3))
        #expect(queue.operations.map(\.changes) == [[change("c", .int(2))], [change("a", .int(3))]])
    }

    @Test func anOrderOfNothingChangesNothing() {
        var queue = DisconnectQueue()
        queue.merge([])
        #expect(queue.isEmpty)
        queue.put(path("a"), .int(1))
        queue.merge([])
        #expect(queue.operations.map(\.changes) == [[change("a", .int(1))]])
    }

    @Test func anOrderBelowIsFoldedIn() throws {
        var queue = DisconnectQueue()
        queue.put(path("a"), try JSONParser.parse("{\"x\":1,\"y\":2}"))
        queue.put(path("a/x"), .null)
        queue.merge([change("a/z", .int(5)), change("b", .int(6))])
        #expect(
            queue.operations.map(\.changes) == [
                [change("a", try JSONParser.parse("{\"y\":2,\"z\":5}"))], [change("b", .int(6))],
            ])
    }

    @Test func aCancelSplitsWhatIsAbove() throws {
        var queue = DisconnectQueue()
        queue.put(path("a"), try JSONParser.parse("{\"x\":{\"p\":1,\"q\":2},\"y\":2}"))
        queue.cancel(path("a/x/p"))
        #expect(queue.operations.map(\.changes) == [[change("a/x/q", .int(2)), change("a/y", .int(2))]])
        queue.cancel(path("a"))
        #expect(queue.isEmpty)
    }

    @Test func theClientsOwnTest() {
        var queue = DisconnectQueue()
        queue.merge([change("foo/baz", .string("c")), change("foo/bat", .string("d"))])
        queue.cancel(path("foo/baz"))
        #expect(queue.operations.map(\.changes) == [[change("foo/bat", .string("d"))]])
    }

    @Test func anOrderStaysOneWrite() {
        var queue = DisconnectQueue()
        queue.merge([change("a", .int(1)), change("b/c", .null)])
        queue.put(path("d"), .int(1))
        #expect(queue.operations.map(\.changes.count) == [2, 1])
        #expect(DisconnectQueue(queue.operations.map(\.changes)) == queue)
    }

    /// The final effect equals that of the clients' own model, on any tree.
    @Test(arguments: [41, 42, 43, 44, 45, 46] as [UInt64]) func theSameAsTheClientsModel(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for round in 0..<400 {
            var queue = DisconnectQueue()
            var model = SparseTree()
            for _ in 0...generator.random.below(8) {
                let location = generator.path(maxDepth: 3)
                switch generator.random.below(5) {
                case 0, 1:
                    let value = generator.random.below(4) == 0 ? Node.null : generator.tree(depth: 3)
                    queue.put(location, value)
                    model.remember(location.keys[...], value)
                case 2, 3:
                    let changes = generator.changes(atMost: 3, below: location)
                    queue.merge(changes)
                    for change in changes { model.remember(change.path.keys[...], change.value) }
                default:
                    queue.cancel(location)
                    if model.forget(location.keys[...]) { model = SparseTree() }
                }
            }
            for order in queue.operations { #expect(Change.overlap(in: order.changes) == nil) }
            // Priorities are left out: that of a node which loses all children and gets others depends on the order of
            // writes, which the clients' model doesn't have.
            let before = plain(generator.tree(depth: 3))
            var expected = before
            model.apply(Path(), to: &expected)
            var after = before
            for change in queue.operations.flatMap(\.changes) {
                after = after.replacing(change.path, with: change.value)
            }
            #expect(after == expected, "seed \(seed), round \(round)")
        }
    }
}
