import ClientCore
import Testing
import Tree

@Suite struct CacheManagerTests {
    private let scores = Path(splitting: "scores")

    private func last(_ count: Int) -> QuerySpec {
        QuerySpec(path: scores, query: Query(index: .value, limit: .last(count)))
    }

    private func node(_ children: [String: Int64]) -> Node {
        Node(children: children.map { (Key($0.key), .int($0.value)) })
    }

    /// Returns a store in which the last four of some scores were loaded before the process ended.
    private func storeWithFourScores() -> MemoryStore {
        let store = MemoryStore()
        let cache = CacheManager(store: store)
        _ = cache.activate(last(4))
        cache.applyServer(node(["a": 1, "b": 2, "c": 3, "d": 4]), at: scores, of: last(4))
        cache.complete(last(4))
        cache.commit()
        return store
    }

    @Test func aQueryIsServedByItselfAfterARestart() {
        let found = CacheManager(store: storeWithFourScores()).activate(last(4))
        #expect(found.isComplete)
        #expect(found.node == node(["a": 1, "b": 2, "c": 3, "d": 4]))
    }

    @Test func aNarrowerQueryIsServedCompletely() {
        let cache = CacheManager(store: storeWithFourScores())
        let found = cache.activate(last(2))
        #expect(found.isComplete)
        #expect(last(2).query.select(from: found.node) == node(["c": 3, "d": 4]))
        // The query now has a set of its own.
        #expect(CacheManager(store: MemoryStore()).cached(last(2)) == .nothing)
    }

    @Test func aWiderQueryGetsWhatIsKnown() {
        let found = CacheManager(store: storeWithFourScores()).activate(last(6))
        #expect(!found.isComplete)
        #expect(found.node == node(["a": 1, "b": 2, "c": 3, "d": 4]))
        #expect(found.knownChildren == Set(["a", "b", "c", "d"].map { Key($0) }))
    }

    @Test func aWiderQueryIsServedWhereThereIsNoMore() {
        let store = MemoryStore()
        let cache = CacheManager(store: store)
        _ = cache.activate(last(10))
        cache.applyServer(node(["a": 1, "b": 2]), at: scores, of: last(10))
        cache.complete(last(10))
        #expect(cache.cached(last(20)).isComplete)
        #expect(cache.cached(QuerySpec(path: scores, query: Query(index: .value, limit: .first(1)))).isComplete)
        #expect(!cache.cached(QuerySpec(path: scores, query: Query(index: .key, limit: .first(1)))).isComplete)
        #expect(!cache.cached(QuerySpec(path: scores)).isComplete)
    }

    @Test func aCompletePathServesAllBelow() {
        let cache = CacheManager(store: MemoryStore())
        let spec = QuerySpec(path: scores)
        _ = cache.activate(spec)
        cache.applyServer(node(["a": 1, "b": 2]), at: scores, of: spec)
        cache.complete(spec)
        cache.deactivate(spec)
        let child = cache.cached(QuerySpec(path: Path(splitting: "scores/a")))
        #expect(child == CachedQuery(node: .int(1), isComplete: true, knownChildren: nil))
        #expect(
            cache.cached(last(1)) == CachedQuery(node: node(["a": 1, "b": 2]), isComplete: true, knownChildren: nil))
        #expect(cache.cached(QuerySpec(path: Path(splitting: "others"))) == .nothing)
        // The order has no influence on the loaded data.
        #expect(cache.cached(QuerySpec(path: scores, query: Query(index: .value))).isComplete)
    }

    @Test func knownChildrenAreThoseOfQueriesAndOfPathsBelow() {
        let cache = CacheManager(store: storeWithFourScores())
        let below = QuerySpec(path: Path(splitting: "scores/x"))
        _ = cache.activate(below)
        cache.applyServer(.int(9), at: below.path, of: below)
        cache.complete(below)
        let found = cache.cached(QuerySpec(path: scores))
        #expect(found.node == node(["a": 1, "b": 2, "c": 3, "d": 4, "x": 9]))
        #expect(!found.isComplete)
    }

    @Test func whatLeavesAWindowIsNoLongerServed() {
        let cache = CacheManager(store: storeWithFourScores())
        _ = cache.activate(last(4))
        let changes = [
            Change(path: Path(splitting: "a"), value: .null), Change(path: Path(splitting: "e"), value: .int(5)),
        ]
        cache.applyServer(changes, at: scores, of: last(4))
        #expect(cache.cached(last(4)).node == node(["b": 2, "c": 3, "d": 4, "e": 5]))
        // A change below an existing child adds and removes no child of the query.
        cache.applyServer(.int(6), at: Path(splitting: "scores/e"), of: last(4))
        cache.applyServer(.string("p"), at: Path(splitting: "scores/e/.priority"), of: last(4))
        #expect(cache.cached(last(4)).node.child(Key("e")) == Node.int(6).withPriority(.string("p")))
    }

    @Test func whatTheClientSaysItselfIsNotKept() {
        let store = MemoryStore()
        let cache = CacheManager(store: store)
        let spec = QuerySpec(path: Path(splitting: ".info/connected"))
        #expect(cache.activate(spec) == .nothing)
        cache.applyServer(.bool(true), at: spec.path, of: spec)
        cache.complete(spec)
        cache.acknowledge(.overwrite(.bool(true)), at: spec.path)
        cache.save(PendingWrite(id: WriteID(rawValue: 1), path: spec.path, content: .overwrite(.null)))
        cache.deactivate(spec)
        #expect(store.serverData(at: .root).isNull)
        #expect(store.trackedQueries().isEmpty)
        #expect(store.pendingWrites().isEmpty)
    }

    @Test func acknowledgedWritesCanBeReadOffline() {
        let cache = CacheManager(store: MemoryStore())
        let query = QuerySpec(path: Path(splitting: "notes/1"))
        cache.acknowledge(.overwrite(.string("text")), at: query.path)
        #expect(cache.cached(query).node == .string("text"))
        #expect(cache.cached(query).isComplete)
        cache.acknowledge(.merge([Change(path: Path(splitting: "2/x"), value: .int(1))]), at: Path(splitting: "notes"))
        #expect(cache.cached(QuerySpec(path: Path(splitting: "notes/2/x"))).node == .int(1))
        #expect(!cache.cached(QuerySpec(path: Path(splitting: "notes/2"))).isComplete)
    }

    @Test func theServersOwnDataStaysWhereListenersAre() {
        let cache = CacheManager(store: storeWithFourScores())
        let spec = QuerySpec(path: Path(splitting: "notes/1"))
        _ = cache.activate(spec)
        cache.applyServer(.int(1000), at: spec.path, of: spec)
        cache.acknowledge(.overwrite(.int(999)), at: spec.path)
        #expect(cache.cached(spec).node == .int(1000))
        cache.acknowledge(.overwrite(node(["1": 999, "2": 5])), at: Path(splitting: "notes"))
        #expect(cache.cached(QuerySpec(path: Path(splitting: "notes"))).node == node(["1": 1000, "2": 5]))
        _ = cache.activate(last(4))
        cache.acknowledge(.overwrite(.int(999)), at: Path(splitting: "scores/a"))
        #expect(cache.cached(last(4)).node.child(Key("a")) == .int(1))
    }

    /// The connection that was to bring the answer was lost, and the write is not executed again: data sent to the
    /// listens since is newer than the write.
    @Test func anAnswerThatComesLateTakesNothingBack() {
        let cache = CacheManager(store: storeWithFourScores())
        _ = cache.activate(last(4))
        let below = QuerySpec(path: Path(splitting: "notes/1"))
        _ = cache.activate(below)
        cache.applyServer(.int(8), at: below.path, of: below)
        cache.acknowledge(.overwrite(.null), at: scores)
        #expect(cache.cached(last(4)).node == node(["a": 1, "b": 2, "c": 3, "d": 4]))
        cache.acknowledge(.overwrite(node(["a": 9, "e": 5])), at: scores)
        #expect(cache.cached(last(4)).node == node(["a": 1, "b": 2, "c": 3, "d": 4]))
        cache.acknowledge(.overwrite(.null), at: Path(splitting: "notes"))
        #expect(cache.cached(below).node == .int(8))
        let increment = Node.serverValue(ServerValue(.increment(.int(2))))
        cache.acknowledge(.overwrite(increment), at: scores)
        cache.acknowledge(.overwrite(increment), at: Path(splitting: "notes"))
        #expect(cache.cached(last(4)).node == node(["a": 1, "b": 2, "c": 3, "d": 4]))
        #expect(cache.cached(below).node == .int(8))
    }

    /// A query received another value of a child, and that value was replaced again before the child's own listener, or
    /// the remaining listener, was notified: the server confirms the listener's data, and the store shows it again.
    @Test(arguments: [false, true]) func whatTheServerConfirmsIsKept(hasEnded: Bool) {
        let cache = CacheManager(store: MemoryStore())
        let below = QuerySpec(path: scores.appending(Key("a")))
        for spec in [last(4), below] { _ = cache.activate(spec) }
        cache.applyServer(.int(1), at: below.path, of: below)
        cache.complete(below)
        cache.confirm(.int(1), of: below)
        cache.applyServer(node(["a": 9, "b": 2]), at: scores, of: last(4))
        cache.complete(last(4))
        if hasEnded { cache.deactivate(last(4)) }
        cache.confirm(.int(1), of: below)
        #expect(cache.cached(below).node == .int(1))
        cache.applyServer(.int(8), at: below.path, of: below)
        cache.confirm(node(["a": 9, "b": 2]), of: last(4))
        if !hasEnded { #expect(cache.cached(last(4)).node == node(["a": 9, "b": 2])) }
    }

    /// The answer to a write notified a listener of data that is not in the store. The connection is lost, and the
    /// server confirms that the listener has that data.
    @Test func whatTheServerConfirmsIsKeptThoughItNeverSentIt() {
        let cache = CacheManager(store: MemoryStore())
        let spec = QuerySpec(path: scores)
        _ = cache.activate(spec)
        cache.acknowledge(.overwrite(node(["a": 1])), at: scores)
        cache.complete(spec)
        cache.confirm(node(["a": 1]), of: spec)
        #expect(cache.cached(spec) == CachedQuery(node: node(["a": 1]), isComplete: true, knownChildren: nil))
    }

    @Test func incrementsCountFromWhatIsKnown() {
        let cache = CacheManager(store: MemoryStore())
        let increment = Node.serverValue(ServerValue(.increment(.int(2))))
        let query = QuerySpec(path: Path(splitting: "count"))
        cache.acknowledge(.overwrite(increment), at: query.path)
        #expect(cache.cached(query) == .nothing)
        cache.acknowledge(.overwrite(.int(5)), at: query.path)
        cache.acknowledge(.overwrite(increment), at: query.path)
        #expect(cache.cached(query).node == .int(7))
    }

    @Test func aStoreThatLostItsDataServesNothing() {
        let store = OddStore()
        let cache = CacheManager(store: store)
        let spec = QuerySpec(path: scores)
        _ = cache.activate(spec)
        cache.applyServer(.int(1), at: scores, of: spec)
        cache.complete(spec)
        #expect(cache.cached(spec).isComplete)
        store.lose()
        #expect(cache.cached(spec) == .nothing)
        // The changed part is not the whole value.
        cache.applyServer(.int(5), at: scores.appending(Key("a")), of: QuerySpec(path: scores.appending(Key("a"))))
        cache.complete(spec)
        #expect(cache.cached(spec) == .nothing)
        cache.deactivate(spec)
        // After a new listen the value is known again.
        #expect(cache.activate(spec) == .nothing)
        cache.applyServer(.int(2), at: scores, of: spec)
        cache.complete(spec)
        #expect(cache.cached(spec).node == .int(2))
        store.losesWhenRead = true
        #expect(cache.cached(spec) == .nothing)
    }
}
