import Testing
import Tree
import Wire

@testable import ClientCore

/// Checks the log positions of events.
@Suite struct MarkTests {
    private let tree = SyncTree()

    private func spec(_ path: String, _ query: Query = Query()) -> QuerySpec {
        QuerySpec(path: Path(splitting: path[...]), query: query)
    }

    private func registration(_ id: UInt64, _ spec: QuerySpec, _ kinds: EventKinds = .value) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: spec, kinds: kinds)
    }

    private func node(_ json: String) throws -> Node { try JSONParser.parse(json) }

    private func mark(_ seq: Int64) -> LogMark { LogMark(seq: seq, resumption: "\(seq)-x") }

    @Test func eventsSayAsOfWhichEntryTheyAre() throws {
        let all = spec("a")
        _ = tree.add(registration(1, all, [.value, .childAdded, .childChanged]))
        #expect(
            tree.applyServer(try node(#"{"b":1}"#), at: all.path, tag: nil, mark: mark(3)).events.map(\.seq) == [3, 3])
        #expect(tree.completeListen(all, tag: nil, mark: mark(3)).events.isEmpty)
        let changes = [Change(path: Path(splitting: "b"), value: .int(2))]
        #expect(tree.applyServer(changes, at: all.path, tag: nil, mark: mark(5)).events.map(\.seq) == [5, 5])
        // A new listener further down is served from that data.
        #expect(tree.add(registration(2, spec("a/b"))).events.map(\.seq) == [5])
        #expect(tree.localSeq(of: all) == 5 && tree.resumption(of: all) == "5-x")
        #expect(tree.resumption(of: spec("a/b")) == nil)
        // None of the data has changed since.
        tree.reached(9)
        #expect(tree.add(registration(3, spec("a/b"))).events.map(\.seq) == [9])
        #expect(tree.resumption(of: all) == "5-x")
    }

    @Test func whatOnlyTheClientHasIsAsOfNoEntry() throws {
        let all = spec("a")
        _ = tree.add(registration(1, all))
        _ = tree.applyServer(try node(#"{"b":1}"#), at: all.path, tag: nil, mark: mark(3))
        let content = PendingWrite.Content.overwrite(.int(2))
        let write = PendingWrite(id: WriteID(rawValue: 1), path: Path(splitting: "a/b"), content: content)
        let local = tree.apply(write, estimate: content)
        #expect(local.events.count == 1 && local.events[0].seq == nil)
        #expect(tree.localSeq(of: all) == nil)
        // Another client's change arrives while the write is not answered.
        let other = tree.applyServer(.int(7), at: Path(splitting: "a/c"), tag: nil, mark: mark(4))
        #expect(other.events.count == 1 && other.events[0].seq == nil)
        // The write is refused: the value is the server's again.
        #expect(tree.acknowledge(write.id, isRefused: true).events.map(\.seq) == [4])
        #expect(tree.localSeq(of: all) == 4)
    }

    @Test func queriesHaveTheirOwn() throws {
        let last = spec("a", Query(index: .key, limit: .last(1)))
        let effects = tree.add(registration(1, last))
        guard case .start(_, let tag?)? = effects.listens.first else {
            Issue.record("the query is not asked for")
            return
        }
        #expect(
            tree.applyServer(try node(#"{"c":1}"#), at: last.path, tag: tag, mark: mark(2)).events.map(\.seq) == [2])
        _ = tree.completeListen(last, tag: tag, mark: mark(2))
        #expect(tree.resumption(of: last) == "2-x")
        // Another listen receives a newer value of one of the query's children: the query keeps its position until its
        // own changes arrive.
        _ = tree.add(registration(2, spec("a/c")))
        let others = tree.applyServer(.int(5), at: Path(splitting: "a/c"), tag: nil, mark: mark(6)).events
        #expect(others.map(\.registration.rawValue) == [2])
        #expect(tree.resumption(of: last) == "2-x")
        _ = tree.applyServer(
            [Change(path: Path(splitting: "c"), value: .int(5))], at: last.path, tag: tag, mark: mark(6))
        #expect(tree.localSeq(of: last) == 6 && tree.resumption(of: last) == "6-x")
    }

    /// Data without a log position removes the position, as does data that is not the server's.
    @Test func dataWithoutAMarkTakesItAway() throws {
        let all = spec("a")
        _ = tree.add(registration(1, all))
        _ = tree.applyServer(try node(#"{"b":1}"#), at: all.path, tag: nil, mark: mark(3))
        let events = tree.applyServer(.int(2), at: Path(splitting: "a/b"), tag: nil).events
        #expect(events.count == 1 && events[0].seq == nil)
        #expect(tree.resumption(of: all) == nil && tree.localSeq(of: all) == nil)
        tree.reached(10)
        #expect(tree.localSeq(of: all) == nil)
    }

    /// Log positions are kept with the data, and removed once the data is no longer the server's own.
    @Test func marksAreKept() throws {
        let store = MemoryStore()
        let all = spec("a")
        do {
            let cache = CacheManager(store: store)
            let tree = SyncTree(cache: cache)
            _ = tree.add(registration(1, all))
            _ = tree.applyServer(try node(#"{"b":1}"#), at: all.path, tag: nil, mark: mark(3))
            _ = tree.completeListen(all, tag: nil, mark: mark(3))
            _ = tree.applyServer(.int(2), at: Path(splitting: "a/b"), tag: nil, mark: mark(4))
            cache.commit()
            _ = tree.applyServer(.int(3), at: Path(splitting: "a/b"), tag: nil, mark: mark(5))
        }
        store.restart()
        let cache = CacheManager(store: store)
        let again = SyncTree(cache: cache)
        let events = again.add(registration(2, all)).events
        let kept = try node(#"{"b":2}"#)
        #expect(events.map(\.seq) == [4] && events.first?.node == kept)
        #expect(again.resumption(of: all) == "4-x")
        // A part of the data has the same position, but belongs to another listen.
        let part = SyncTree(cache: cache)
        #expect(part.add(registration(3, spec("a/b"))).events.map(\.seq) == [4])
        #expect(part.resumption(of: spec("a/b")) == nil)
        // The client assumes its disconnect writes when the connection ends.
        _ = again.applyServer(.int(9), at: Path(splitting: "a/b"), tag: nil)
        cache.commit()
        #expect(cache.cached(all).mark == nil && CacheManager(store: store).cached(all).mark == nil)
    }
}
