import ClientCore
import TestSupport
import Testing
import Tree

@Suite struct CachePruningTests {
    private static let budget = 1 << 20

    private func query(_ number: Int) -> QuerySpec { QuerySpec(path: Path(splitting: "places/\(number)")) }

    private func load(_ spec: QuerySpec, _ bytes: Int, into cache: CacheManager) {
        _ = cache.activate(spec)
        cache.applyServer(.string(String(repeating: "x", count: bytes)), at: spec.path, of: spec)
        cache.complete(spec)
    }

    @Test func theLeastRecentlyUsedGoFirst() {
        let cache = CacheManager(store: MemoryStore(), budget: Self.budget)
        for number in 0..<20 {
            load(query(number), 50_000, into: cache)
            cache.deactivate(query(number))
        }
        // This path was used again, so it is pruned last.
        _ = cache.activate(query(0))
        cache.deactivate(query(0))
        load(query(20), 100_000, into: cache)
        let kept = (0...20).filter { cache.cached(query($0)).isComplete }
        #expect(kept.contains(0))
        #expect(kept.contains(20))
        #expect(!kept.contains(1))
        #expect(kept.count >= 15)
        #expect(kept == kept.sorted())
        #expect(Set(kept).isSuperset(of: 10...20))
    }

    @Test func whatIsListenedToStays() {
        let store = MemoryStore()
        let cache = CacheManager(store: store, budget: Self.budget)
        for number in 0..<30 { load(query(number), 50_000, into: cache) }
        #expect((0..<30).allSatisfy { cache.cached(query($0)).isComplete })
        #expect(store.serverDataBytes() > Self.budget)
        for number in 0..<15 { cache.deactivate(query(number)) }
        #expect((15..<30).allSatisfy { cache.cached(query($0)).isComplete })
        #expect(store.serverDataBytes() <= Self.budget)
    }

    @Test func whatNoQueryNeedsGoesFirst() {
        let store = MemoryStore()
        let cache = CacheManager(store: store, budget: Self.budget)
        let path = Path(splitting: "list")
        let spec = QuerySpec(path: path, query: Query(limit: .last(2)))
        _ = cache.activate(spec)
        load(query(0), 1000, into: cache)
        cache.deactivate(query(0))
        for number in 0..<50 {
            let text = Node.string(String(repeating: "x", count: 50_000))
            cache.applyServer(text, at: path.appending(Key("k\(number)")), of: spec)
            if number > 1 { cache.applyServer(.null, at: path.appending(Key("k\(number - 2)")), of: spec) }
        }
        #expect(store.serverDataBytes() < Self.budget + 100_000)
        #expect(cache.cached(query(0)).isComplete)
        #expect(cache.cached(spec).knownChildren == [Key("k48"), Key("k49")])
    }

    @Test func queriesDontPileUp() {
        let store = MemoryStore()
        let cache = CacheManager(store: store)
        for number in 0..<3000 { cache.acknowledge(.overwrite(.int(1)), at: query(number).path) }
        #expect(store.trackedQueries().count <= 1001)
        #expect(cache.cached(query(2999)).isComplete)
        #expect(!cache.cached(query(0)).isComplete)
        #expect(store.serverData(at: Path(splitting: "places/0")).isNull)
    }

    @Test func whatWasActiveAtTheEndWasUsedLast() {
        let store = MemoryStore()
        let first = CacheManager(store: store, budget: Self.budget)
        load(query(0), 300_000, into: first)
        for number in 1..<3 {
            load(query(number), 300_000, into: first)
            first.deactivate(query(number))
        }
        first.commit()
        store.restart()
        let second = CacheManager(store: store, budget: Self.budget)
        #expect(store.trackedQueries().allSatisfy { !$0.isActive })
        load(query(4), 300_000, into: second)
        #expect(second.cached(query(0)).isComplete)
        #expect(!second.cached(query(1)).isComplete)
    }

    @Test func budgetsHaveBounds() {
        let cache = CacheManager(store: MemoryStore())
        #expect(cache.budget == 10 << 20)
        cache.budget = 5
        #expect(cache.budget == 1 << 20)
        cache.budget = .max
        #expect(cache.budget == 100 << 20)
    }
}
