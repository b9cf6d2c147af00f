import Testing
import Tree
import Wire

@testable import ClientCore

/// Checks filtered queries that have received their data from other listens, or that contain other listens.
@Suite struct CoveredQueryTests {
    private let above = Path([Key("a")])
    private let location = Path([Key("a"), Key("q")])

    private func node(_ json: String) throws -> Node { try JSONParser.parse(json) }

    private var first3: QuerySpec { QuerySpec(path: location, query: Query(index: .key, limit: .first(3))) }

    private func registration(_ id: UInt64, _ spec: QuerySpec) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: spec, kinds: .value)
    }

    private func tag(_ effects: SyncEffects) throws -> ListenTag {
        let tags = effects.listens.compactMap { if case .start(_, let tag) = $0 { tag } else { nil } }
        return try #require(tags.first)
    }

    /// Changes that leave a query's path are sent as changes of its window only: data that it has received from a
    /// listen above becomes its own once the server has confirmed it.
    @Test(arguments: [false, true]) func whatAListenAboveHasBroughtIsKept(isKept: Bool) throws {
        let tree = SyncTree(cache: isKept ? CacheManager(store: MemoryStore()) : nil)
        let all = registration(1, QuerySpec(path: above))
        _ = tree.add(all)
        _ = tree.applyServer(try node(#"{"q":{"b":1,"c":2,"d":3,"e":4}}"#), at: above, tag: nil)
        _ = tree.completeListen(all.spec, tag: nil)
        let selected = try node(#"{"b":1,"c":2,"d":3}"#)
        #expect(tree.add(registration(2, first3)).events.map(\.node) == [selected])
        let tag = try tag(tree.remove(all))
        #expect(tree.serverValue(of: first3) == (selected, true))
        // The hash of that data equals the server's: the server answers without data.
        #expect(tree.completeListen(first3, tag: tag, mark: LogMark(seq: 7)).events.isEmpty)
        #expect(tree.serverValue(of: first3) == (selected, true))
        #expect(tree.localSeq(of: first3) == 7)
        let changes = [
            Change(path: Path([Key("a")]), value: .int(0)), Change(path: Path([Key("d")]), value: .null),
        ]
        let changed = try node(#"{"a":0,"b":1,"c":2}"#)
        #expect(tree.applyServer(changes, at: location, tag: tag).events.map(\.node) == [changed])
    }

    /// The answer to a get covers a query that waits for the server to confirm its data.
    @Test func whatAnAnswerHasBroughtIsKept() throws {
        let tree = SyncTree()
        let tag = try tag(tree.add(registration(1, first3)))
        let selected = try node(#"{"b":1,"c":2,"d":3}"#)
        _ = tree.applyServer(selected, at: location, tag: tag)
        _ = tree.completeListen(first3, tag: tag)
        let whole = try node(#"{"b":1,"c":2,"d":3,"e":4}"#)
        _ = tree.applyAnswer(whole, of: QuerySpec(path: location), seq: nil)
        _ = tree.completeListen(first3, tag: tag)
        let changed = try node(#"{"b":1,"c":5,"d":3}"#)
        #expect(tree.applyServer(.int(5), at: location.appending(Key("c")), tag: tag).events.map(\.node) == [changed])
    }

    /// The server sends several entries to one listen after the other: the query has received all of them when the
    /// first reaches the listener to its child.
    @Test func aChildsOlderEntriesTakeNothingAway() throws {
        let tree = SyncTree()
        let tag = try tag(tree.add(registration(1, first3)))
        _ = tree.applyServer(try node(#"{"b":{"x":1},"c":2}"#), at: location, tag: tag)
        _ = tree.completeListen(first3, tag: tag)
        let child = location.appending(Key("b"))
        _ = tree.add(registration(2, QuerySpec(path: child)))
        _ = tree.completeListen(QuerySpec(path: child), tag: nil)
        _ = tree.applyServer(.null, at: child, tag: tag)
        let again = try node(#"{"y":2}"#)
        _ = tree.applyServer(again, at: child, tag: tag)
        let seen = [
            tree.applyServer(.null, at: child, tag: nil),
            tree.applyServer(.int(2), at: child.appending(Key("y")), tag: nil),
        ].flatMap(\.events)
        #expect(seen.filter { $0.registration.rawValue == 2 }.map(\.node) == [.null, again])
        let selected = try node(#"{"b":{"y":2},"c":2}"#)
        #expect(tree.localValue(of: first3) == selected)
        #expect(tree.serverValue(of: first3) == (selected, true))
    }

    /// An older value of a child does not displace a child that the query has selected since.
    @Test func aChildsOlderValueDisplacesNothing() throws {
        let tree = SyncTree()
        let spec = QuerySpec(path: location, query: Query(index: .value, limit: .first(2)))
        let tag = try tag(tree.add(registration(1, spec)))
        _ = tree.applyServer(try node(#"{"b":1,"c":2}"#), at: location, tag: tag)
        _ = tree.completeListen(spec, tag: tag)
        let child = location.appending(Key("d"))
        _ = tree.add(registration(2, QuerySpec(path: child)))
        for value: Int64 in [0, 9] {
            _ = tree.applyServer(.int(value), at: child, tag: nil)
        }
        let selected = try node(#"{"b":1,"c":2}"#)
        #expect(tree.localValue(of: spec) == selected)
    }

    /// The whole value of a path comes from the cache, and the server confirms it: a listener added meanwhile to a
    /// query below receives its value at once.
    @Test(arguments: [true, false]) func whatTheCacheBringsReachesThoseBelow(isNothing: Bool) throws {
        let store = MemoryStore()
        let value = isNothing ? Node.null : try node(#"{"b":1,"c":2,"d":3}"#)
        do {
            let tree = SyncTree(cache: CacheManager(store: store))
            let all = registration(1, QuerySpec(path: above))
            _ = tree.add(all)
            _ = tree.applyServer(isNothing ? .null : Node(children: [(Key("q"), value)]), at: above, tag: nil)
            _ = tree.completeListen(all.spec, tag: nil)
            _ = tree.remove(all)
        }
        let tree = SyncTree(cache: CacheManager(store: store))
        // The query had received another value, of which nothing is left.
        let tag = try tag(
            tree.add(registration(2, QuerySpec(path: location, query: Query(index: .value, limit: .last(1))))))
        _ = tree.applyServer(.null, at: location, tag: tag)
        _ = tree.add(registration(3, QuerySpec(path: above)))
        #expect(tree.add(registration(4, first3)).events.map(\.node) == [value])
        #expect(
            tree.applyServer(isNothing ? .null : Node(children: [(Key("q"), value)]), at: above, tag: nil).events
                .isEmpty)
    }

    /// A listener to the whole path is served from the file: queries at that path can then select from it, including a
    /// pending write to a part of a child, although the server may have no changes to send.
    @Test(arguments: [1, 100]) func cachedDataIsReported(many: Int) throws {
        let cache = CacheManager(store: MemoryStore())
        let all = QuerySpec(path: location)
        _ = cache.activate(all)
        cache.applyServer(try node(#"{"c":{"x":1}}"#), at: location, of: all)
        cache.complete(all)
        cache.deactivate(all)
        let tree = SyncTree(cache: cache, many: many)
        let query = QuerySpec(path: location, query: Query(index: .key, start: .init(value: .init(.string("c")))))
        let tag = try tag(tree.add(registration(1, query)))
        _ = tree.applyServer(.null, at: location, tag: tag)
        _ = tree.completeListen(query, tag: tag)
        let content = PendingWrite.Content.overwrite(.int(2))
        let below = location.appending(Key("d")).appending(Key("y"))
        let write = PendingWrite(id: WriteID(rawValue: 1), path: below, content: content)
        #expect(tree.apply(write, estimate: content).events.isEmpty)
        let events = tree.add(registration(2, all)).events
        #expect(
            events.contains {
                $0.registration == RegistrationID(rawValue: 1) && $0.node == tree.localValue(at: location)
            })
    }
}
