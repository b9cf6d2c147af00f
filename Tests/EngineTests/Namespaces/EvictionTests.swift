import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that only unused namespaces are evicted, least recently used first.
@Suite struct EvictionTests {
    private static func table(_ count: Int64, total: MemoryTotal = MemoryTotal()) -> NamespaceTable {
        let table = NamespaceTable()
        for id in 1...count { table.loaded("n\(id)", .success(.test(id: id, name: "n\(id)", total: total))) }
        return table
    }

    @Test func theLeastRecentlyUsedGoesFirst() {
        let table = Self.table(4)
        _ = table.live("n1")
        #expect(!table.request("n3") { _ in })
        // Writes of other gateways do not count as use.
        _ = table.live(id: 2)
        _ = table.announced(2, head: 5)
        #expect((0..<5).map { _ in table.takeUnused(most: 10)?.name } == ["n2", "n4", "n1", "n3", nil])
        #expect(table.all.isEmpty && table.live("n1") == nil && table.live(id: 1) == nil)
        #expect(table.request("n1") { _ in }, "it has to be loaded")
    }

    /// Requests hold no reference to the namespace in between.
    @Test func recentlyUsedNamespacesStay() {
        let now = MutexBox<Milliseconds>(1_000)
        let table = NamespaceTable { now.withLock { $0 } }
        for id in 1...3 as ClosedRange<Int64> { table.loaded("n\(id)", .success(.test(id: id, name: "n\(id)"))) }
        func takeUnused() -> String? { table.takeUnused(most: 10, sparing: 5_000)?.name }
        #expect(takeUnused() == nil, "to be read is a use")
        now.withLock { $0 += 3_000 }
        _ = table.live("n1")
        #expect(!table.request("n2") { _ in })
        // Writes of other gateways do not count as use.
        _ = table.live(id: 3)
        now.withLock { $0 += 1_999 }
        #expect(takeUnused() == nil)
        now.withLock { $0 += 1 }
        #expect(takeUnused() == "n3" && takeUnused() == nil)
        now.withLock { $0 += 2_999 }
        #expect(takeUnused() == nil)
        now.withLock { $0 += 1 }
        let held = table.live(id: 1)
        #expect(takeUnused() == "n2" && takeUnused() == nil)
        // The former holder of a reference may request the namespace again soon.
        #expect(held != nil && table.takeUnused(most: 10) == nil)
    }

    /// Far above the budget, small namespaces are evicted although they were just used; large ones would be read again
    /// at once.
    @Test func largeRecentlyUsedNamespacesStay() {
        let now = MutexBox<Milliseconds>(1_000)
        let table = NamespaceTable { now.withLock { $0 } }
        for id in 1...4 as ClosedRange<Int64> {
            let namespace = LiveNamespace.test(id: id, name: "n\(id)")
            if id % 2 == 1 { namespace.memory.grow(by: 10_000) }
            table.loaded("n\(id)", .success(namespace))
        }
        func takeUnused(_ sizes: Range<Int> = 0..<10_000) -> String? {
            table.takeUnused(most: 10, sparing: 5_000, notSparing: sizes)?.name
        }
        #expect((0..<3).map { _ in takeUnused() } == ["n2", "n4", nil])
        #expect(takeUnused(10_000..<10_000) == nil)
        #expect(takeUnused(10_000..<(.max)) == "n1", "where large ones take far too much, they go")
        // A check does not count as use.
        now.withLock { $0 = 6_000 }
        #expect((0..<2).map { _ in takeUnused() } == ["n3", nil])
    }

    /// A namespace with references counts as used at its last check.
    @Test func namespacesInUseAtTheLastLookStay() {
        let now = MutexBox<Milliseconds>(0)
        let table = NamespaceTable { now.withLock { $0 } }
        table.loaded("n1", .success(.test(id: 1, name: "n1")))
        var held = table.live("n1")
        now.withLock { $0 = 60_000 }
        #expect(held != nil && table.takeUnused(most: 10, sparing: 5_000) == nil)
        held = nil
        now.withLock { $0 = 64_999 }
        #expect(table.takeUnused(most: 10, sparing: 5_000) == nil)
        now.withLock { $0 = 65_000 }
        #expect(table.takeUnused(most: 10, sparing: 5_000)?.name == "n1")
    }

    @Test func referencedNamespacesStay() {
        let table = Self.table(2)
        let held = table.live("n1")
        _ = table.live("n2")
        #expect(table.takeUnused(most: 10)?.name == "n2")
        #expect(table.takeUnused(most: 10) == nil)
        #expect(table.live("n1") === held && held != nil)
    }

    @Test func namespacesWithListenersStay() {
        let table = Self.table(1)
        let listener = NamedListener("l")
        _ = table.live("n1")?.subscribe(listener, at: .root)
        #expect(table.takeUnused(most: 10) == nil)
        table.live("n1")?.unsubscribe(listener, at: .root)
        #expect(table.takeUnused(most: 10)?.name == "n1")
    }

    @Test func namespacesWithWorkStay() {
        let table = Self.table(1)
        // Handed over to committers that don't exist: their references are not tested here.
        table.live("n1")?.schedule()
        #expect(table.takeUnused(most: 10) == nil)
        _ = table.live("n1")?.finishedTask(followsLog: true)
        #expect(table.takeUnused(most: 10)?.name == "n1")
    }

    /// A waiter for a seq that never arrives keeps the namespace until the wait is over, not forever.
    @Test func waitersForNothingAreForgotten() {
        let table = Self.table(2)
        for (name, milliseconds) in [("n1", 0), ("n2", 600_000)] as [(String, Int64)] {
            guard let namespace = table.live(name) else { continue }
            namespace.whenApplied(1_000, within: milliseconds) { _ = namespace.name }
            _ = namespace.finishedTask(followsLog: true)
        }
        #expect(table.takeUnused(most: 1) == nil, "it is looked at once more")
        #expect(table.takeUnused(most: 3)?.name == "n1")
        #expect(table.takeUnused(most: 10) == nil)
    }

    /// However many namespaces are in use, only the allowed number is checked; they then count as used.
    @Test func noMoreAreLookedAtThanAllowed() {
        let table = Self.table(10)
        let held = (1...5).map { table.live(id: $0) }
        #expect(table.takeUnused(most: 3) == nil)
        #expect(table.takeUnused(most: 3)?.name == "n6")
        #expect(held.count == 5)
    }

    @Test func theOneThatIsKeptStays() throws {
        let total = MemoryTotal()
        let table = Self.table(3, total: total)
        #expect((table.keptMemory?.bytes ?? 0) == 0)
        #expect(table.keep(try #require(table.live("n1"))))
        #expect(!table.keep(try #require(table.live("n1"))))
        #expect((table.keptMemory?.bytes ?? 0) == NamespaceMemory.bytesBesidesTree)
        #expect((0..<3).map { _ in table.takeUnused(most: 10)?.name } == ["n2", "n3", nil])
        #expect(total.bytes == (table.keptMemory?.bytes ?? 0), "what is let go is not counted any more")
        table.loaded("n4", .success(.test(id: 4, name: "n4", total: total)))
        #expect(table.keep(try #require(table.live("n4"))))
        #expect(table.takeUnused(most: 10)?.name == "n1", "another is kept instead")
    }

    @Test func theOneThatIsKeptNoMoreGoes() throws {
        let table = Self.table(2)
        #expect(table.keep(try #require(table.live("n1"))))
        let other = try #require(table.live("n2")?.memory)
        table.endKeeping(other)
        #expect((0..<2).map { _ in table.takeUnused(most: 10)?.name } == ["n2", nil])
        table.endKeeping(try #require(table.keptMemory))
        #expect(table.keptMemory == nil && table.takeUnused(most: 10)?.name == "n1")
    }

    @Test func announcementsWhileItIsLoaded() {
        let table = NamespaceTable()
        #expect(table.announced(1, head: 3) == nil)
        #expect(table.takeAnnounced(of: 1) == 0, "nobody was loading it")
        table.watchAnnouncements(of: 1)
        #expect(table.announced(1, head: 7) == nil && table.announced(1, head: 5) == nil)
        table.loaded("a", .success(.test(id: 1, name: "a")))
        #expect(table.announced(1, head: 9) != nil)
        #expect(table.takeAnnounced(of: 1) == 9)
        #expect(table.takeAnnounced(of: 1) == 0)
    }

    /// No caller ever has a namespace while the table has another of the same name. Threads use and release a few
    /// namespaces, and each checks that its namespace is still the table's.
    @Test func thereAreNeverTwoOfOne() {
        let table = NamespaceTable()
        let wrong = MutexBox(0)
        let evict = MutexBox(0)
        let threads = (0..<4).map { thread in
            Thread(name: "user") {
                var random = SeededGenerator(seed: UInt64(thread))
                for _ in 0..<5_000 {
                    let id = Int64(random.below(4)) + 1
                    let name = "n\(id)"
                    if random.oneIn(3) {
                        if table.takeUnused(most: 2) != nil { evict.withLock { $0 += 1 } }
                        continue
                    }
                    let check = { @Sendable (result: Result<LiveNamespace, EngineError>) in
                        guard case .success(let namespace) = result else { return }
                        if table.live(name) !== namespace { wrong.withLock { $0 += 1 } }
                    }
                    if table.request(name, check) { table.loaded(name, .success(.test(id: id, name: name))) }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(wrong.withLock { $0 } == 0)
        #expect(evict.withLock { $0 } > 100)
    }
}
