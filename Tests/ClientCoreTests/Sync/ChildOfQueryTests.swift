import ClientCore
import Testing
import Tree

/// Checks that the items of a list loaded by a filtered query are known.
@Suite struct ChildOfQueryTests {
    private let posts = Path(splitting: "posts")
    private let item = Path(splitting: "posts/a")

    private func post(_ stars: Int64) -> Node {
        Node(children: [(Key("title"), .string("A")), (Key("stars"), .int(stars))])
    }

    /// Adds a listener to the last two posts by stars, and returns the query's tag.
    private func list(_ tree: SyncTree) throws -> ListenTag {
        let query = Query(index: .child(Path(splitting: "stars")), limit: .last(2))
        let registration = Registration(
            id: RegistrationID(rawValue: 1), spec: QuerySpec(path: posts, query: query), kinds: .value)
        let effects = tree.add(registration)
        guard case .start(let spec, let tag?) = effects.listens.first else {
            throw Failure.notAsked
        }
        _ = tree.applyServer(Node(children: [(Key("a"), post(1)), (Key("b"), post(2))]), at: posts, tag: tag)
        _ = tree.completeListen(spec, tag: tag)
        return tag
    }

    private enum Failure: Error { case notAsked }

    private func listener(_ id: UInt64, _ path: Path, _ query: Query = Query()) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: QuerySpec(path: path, query: query), kinds: .value)
    }

    @Test func anItemIsReportedAtOnceAndRequestedToo() throws {
        let tree = SyncTree()
        _ = try list(tree)
        let effects = tree.add(listener(2, item))
        #expect(effects.events.map(\.node) == [post(1)])
        #expect(effects.listens == [.start(QuerySpec(path: item), tag: nil)])
        // From now on both listeners see the server's data of the item.
        let news = tree.applyServer(post(5), at: item, tag: nil)
        #expect(news.events.filter { $0.registration.rawValue == 2 }.map(\.node) == [post(5)])
        #expect(tree.localValue(at: item) == post(5))
    }

    @Test func whatIsBelowAnItemIsKnownAndWhatTheListLacksIsNot() throws {
        let tree = SyncTree()
        _ = try list(tree)
        #expect(tree.add(listener(2, item.appending(Key("title")))).events.map(\.node) == [.string("A")])
        #expect(tree.add(listener(3, item.appending(Key("text")))).events.map(\.node) == [.null])
        #expect(tree.add(listener(4, posts.appending(Key("c")))).events.isEmpty)
        #expect(tree.localValue(of: QuerySpec(path: posts.appending(Key("b")))) == post(2))
        #expect(tree.localValue(of: QuerySpec(path: posts.appending(Key("c")))) == nil)
    }

    @Test func aQueryOfAnItemIsServed() throws {
        let tree = SyncTree()
        _ = try list(tree)
        let first = listener(2, item, Query(index: .key, limit: .first(1)))
        #expect(tree.add(first).events.map(\.node) == [Node(children: [(Key("stars"), .int(1))])])
    }

    /// The client's pending writes are applied over the known value of an item, as everywhere.
    @Test func writesLieOverIt() throws {
        let tree = SyncTree()
        _ = try list(tree)
        let write = PendingWrite(
            id: WriteID(rawValue: 1), path: item.appending(Key("stars")), content: .overwrite(.int(9)))
        _ = tree.apply(write, estimate: write.content)
        #expect(tree.add(listener(2, item)).events.map(\.node) == [post(9)])
        _ = tree.acknowledge(write.id, isRefused: true)
        #expect(tree.localValue(at: item) == post(1))
    }

    /// A transaction at an item starts from the item's value: listeners to the list don't see it vanish meanwhile.
    @Test func aTransactionBeginsWithTheItem() throws {
        let tree = SyncTree()
        _ = try list(tree)
        var lastWrite: Int64 = 0
        var lastListener: UInt64 = 10
        let transactions = TransactionQueue(
            tree: tree,
            makeWriteID: {
                lastWrite += 1
                return WriteID(rawValue: lastWrite)
            },
            makeRegistrationID: {
                lastListener += 1
                return RegistrationID(rawValue: lastListener)
            }, serverTime: { 0 })
        let effects = transactions.begin(at: item) { node in
            guard case .int(let stars) = node.child(Key("stars")) else { return node }
            return node.replacingChild(Key("stars"), with: .int(stars + 10))
        }.effects
        #expect(effects.puts.map(\.write.content) == [.overwrite(post(11))])
        #expect(
            effects.sync.events.filter { $0.registration.rawValue == 1 }.map(\.node)
                == [Node(children: [(Key("a"), post(11)), (Key("b"), post(2))])])
    }
}
