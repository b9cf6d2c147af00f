import Testing
import Tree
import Wire

@testable import ClientCore

/// Checks that data loaded by one query or one get serves others, with and without a cache.
@Suite struct SharedSetTests {
    private let path = Path([Key("a")])

    private func spec(_ query: Query = Query()) -> QuerySpec { QuerySpec(path: path, query: query) }

    private func registration(_ id: UInt64, _ spec: QuerySpec, _ kinds: EventKinds = .value) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: spec, kinds: kinds)
    }

    private func last(_ count: Int) -> QuerySpec { spec(Query(index: .value, limit: .last(count))) }

    private func node(_ json: String) throws -> Node { try JSONParser.parse(json) }

    private func tag(_ effects: SyncEffects) throws -> ListenTag {
        let tags = effects.listens.compactMap { if case .start(_, let tag) = $0 { tag } else { nil } }
        return try #require(tags.first)
    }

    /// Loads the last four children by value into a tree.
    private func four(_ tree: SyncTree) throws -> ListenTag {
        let tag = try tag(tree.add(registration(1, last(4))))
        _ = tree.applyServer(try node(#"{"e":5,"f":6,"g":7,"h":8}"#), at: path, tag: tag, mark: LogMark(seq: 3))
        _ = tree.completeListen(last(4), tag: tag)
        return tag
    }

    @Test(arguments: [false, true]) func aCompleteSetServesANarrowerQuery(isKept: Bool) throws {
        let tree = SyncTree(cache: isKept ? CacheManager(store: MemoryStore()) : nil)
        _ = try four(tree)
        let effects = tree.add(registration(2, last(2)))
        #expect(effects.events.map(\.node) == [try node(#"{"g":7,"h":8}"#)])
        #expect(effects.events.first?.seq == 3)
        // The query is sent all the same, so that it receives changes itself.
        #expect(effects.listens.count == 1)
        // A removed child is replaced from the data of both queries.
        let content = PendingWrite.Content.overwrite(.null)
        let write = PendingWrite(id: WriteID(rawValue: 1), path: path.appending(Key("h")), content: content)
        let left = try node(#"{"e":5,"f":6,"g":7}"#)
        let events = tree.apply(write, estimate: content).events
        #expect(events.first { $0.registration.rawValue == 1 }?.node == left)
    }

    @Test func aWiderQueryHasToWait() throws {
        let tree = SyncTree()
        _ = try four(tree)
        #expect(tree.add(registration(2, last(6))).events.isEmpty)
        #expect(tree.add(registration(3, spec(Query(index: .value, limit: .first(2))))).events.isEmpty)
        #expect(tree.add(registration(4, spec(Query(index: .key, limit: .last(2))))).events.isEmpty)
    }

    /// An incomplete set serves no other query.
    @Test func anIncompleteSetServesNoRequest() throws {
        let tree = SyncTree()
        _ = tree.add(registration(1, last(4)))
        #expect(tree.add(registration(2, last(2))).events.isEmpty)
    }

    // MARK: Answers to gets

    @Test func anAnswerServesWaitingRequests() throws {
        let tree = SyncTree()
        _ = tree.add(registration(1, spec()))
        let events = tree.applyAnswer(try node(#"{"b":1}"#), of: spec(), seq: 4).events
        let first = try node(#"{"b":1}"#)
        #expect(events.map(\.node) == [first] && events.first?.seq == 4)
        // A later get does not undo changes that the listen has received.
        _ = tree.applyServer(.int(2), at: path.appending(Key("b")), tag: nil)
        #expect(tree.applyAnswer(try node(#"{"b":1}"#), of: spec(), seq: 4).events.isEmpty)
        let second = try node(#"{"b":2}"#)
        #expect(tree.localValue(at: path) == second)
    }

    @Test func anAnswerOfAQueryServesWaitingRequests() throws {
        let tree = SyncTree()
        _ = tree.add(registration(1, last(2)))
        let events = tree.applyAnswer(try node(#"{"g":7,"h":8}"#), of: last(2), seq: nil).events
        #expect(events.map(\.node) == [try node(#"{"g":7,"h":8}"#)])
    }

    @Test func anAnswerIsKept() throws {
        let store = MemoryStore()
        let cache = CacheManager(store: store)
        let tree = SyncTree(cache: cache)
        _ = tree.applyAnswer(try node(#"{"b":1,"c":2}"#), of: spec(), seq: 4)
        let other = QuerySpec(path: Path([Key("q")]), query: Query(index: .key, limit: .first(1)))
        _ = tree.applyAnswer(try node(#"{"x":1}"#), of: other, seq: nil)
        cache.commit()
        store.restart()
        let again = SyncTree(cache: CacheManager(store: store))
        let events = again.add(registration(1, spec())).events
        let kept = try node(#"{"b":1,"c":2}"#)
        #expect(events.map(\.node) == [kept] && events.first?.seq == 4)
        #expect(again.add(registration(2, other)).events.map(\.node) == [try node(#"{"x":1}"#)])
        // Without a cache nothing is kept for later, and no listen is sent.
        let plain = SyncTree()
        #expect(plain.applyAnswer(.int(1), of: spec(), seq: 4).listens.isEmpty)
        #expect(plain.localValue(at: path) == nil)
    }
}
