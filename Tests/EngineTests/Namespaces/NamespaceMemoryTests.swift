import Testing

@testable import Engine

/// Checks the estimated size of a namespace, and the sum.
@Suite struct NamespaceMemoryTests {
    @Test func theSumFollows() {
        let total = MemoryTotal()
        var first: NamespaceMemory? = NamespaceMemory(in: total)
        let second = NamespaceMemory(in: total)
        first?.count { (1_000_000, 5_000) }
        first?.grow(by: 500)
        second.index(by: 300)
        second.loading(bytes: 960)
        #expect(first?.bytes == NamespaceMemory.bytesBesidesTree + 1_000_500)
        #expect(second.bytes == NamespaceMemory.bytesBesidesTree + 10 * NamespaceMemory.bytesOfRow + 300)
        #expect(total.bytes == (first?.bytes ?? 0) + second.bytes)
        first = nil
        #expect(total.bytes == second.bytes)
        second.index(by: -300)
        second.count { (7, 1) }
        #expect(total.bytes == second.bytes && second.bytes == NamespaceMemory.bytesBesidesTree + 7)
    }

    /// Growth during a count remains in the estimate.
    @Test func growthDuringACount() {
        let memory = NamespaceMemory(in: MemoryTotal())
        memory.grow(by: 100)
        memory.count {
            memory.grow(by: 30)
            return (50, 1)
        }
        #expect(memory.bytes == NamespaceMemory.bytesBesidesTree + 80)
    }

    /// Indexes and growth count towards a large namespace as its tree does, because eviction judges its total size.
    @Test func whatIsLargeCountsWithAllThatItTakes() {
        let total = MemoryTotal(budget: 1_000_000)
        var memory: NamespaceMemory? = NamespaceMemory(in: total)
        memory?.count { (200_000, 1_000) }
        #expect(total.bytesOfLarge == 0)
        memory?.index(by: 400_000)
        #expect(total.bytesOfLarge == memory?.bytes)
        memory?.grow(by: 50_000)
        #expect(total.bytesOfLarge == memory?.bytes && total.bytesOfLarge == total.bytes)
        memory?.index(by: -400_000)
        #expect(total.bytesOfLarge == 0)
        memory?.grow(by: 400_000)
        #expect(total.bytesOfLarge == memory?.bytes)
        memory = nil
        #expect(total.bytesOfLarge == 0 && total.bytes == 0)
    }

    /// Only a tree that was read into pages shows how much of it must be in memory.
    @Test func whatIsInMemoryWhenItIsReadAgain() {
        let memory = NamespaceMemory(in: MemoryTotal())
        memory.wasRead(isInPages: false)
        memory.count { (900_000, 1_000) }
        memory.index(by: 70)
        #expect(memory.bytesWhenRead == 70, "it was in memory whole as the file was full, say")
        memory.wasRead(isInPages: true)
        memory.count { (30_000, 1_000) }
        memory.grow(by: 500_000)
        memory.count { (530_000, 1_000) }
        #expect(memory.bytesWhenRead == NamespaceMemory.bytesBesidesTree + 30_070)
        memory.wasRead(isInPages: false)
        #expect(memory.bytesWhenRead == 70)
    }

    @Test func whenACountIsWorthIt() {
        let memory = NamespaceMemory(in: MemoryTotal())
        memory.count { (80 << 20, 1_000_000) }
        memory.grow(by: 5 << 20)
        #expect(!memory.isWorthCounting(rows: 1_000_000), "less than an eighth")
        memory.grow(by: 6 << 20)
        #expect(memory.isWorthCounting(rows: 1_000_000))
        #expect(!memory.isWorthCounting(rows: 1_000_000), "somebody is at it")
        memory.count { (85 << 20, 1_000_000) }
        #expect(!memory.isWorthCounting(rows: 1_000_000))
        // Removals are noticed, too.
        #expect(!memory.isWorthCounting(rows: 900_000))
        #expect(memory.isWorthCounting(rows: 800_000))
    }
}
