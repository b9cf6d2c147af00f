import HTTPServer
import Testing

@Suite struct MemoryBudgetTests {
    private let here = IPAddress("192.0.2.1")
    private let there = IPAddress("192.0.2.2")

    @Test func anAddressHasItsShare() throws {
        let budget = MemoryBudget(bytes: 1_000, bytesPerAddress: 300)
        let first = try #require(budget.take(200, for: here))
        #expect(budget.take(101, for: here) == nil)
        #expect(!first.grow(by: 101))
        #expect(first.grow(by: 100))
        let other = try #require(budget.take(300, for: there))
        #expect(budget.taken == 600)
        #expect(budget.refused == 2)
        // Who is not held to a share is held to the whole.
        let free = try #require(budget.take(400, for: nil))
        #expect(budget.take(1, for: nil) == nil)
        withExtendedLifetime((first, other, free)) {}
    }

    @Test func whatIsLetGoOfIsThereAgain() throws {
        let budget = MemoryBudget(bytes: 1_000, bytesPerAddress: 300)
        for _ in 0..<10 {
            let share = try #require(budget.take(300, for: here))
            #expect(budget.take(1, for: here) == nil)
            #expect(share.resize(to: 10))
            #expect(budget.taken == 10)
            #expect(share.resize(to: 300))
        }
        #expect(budget.taken == 0)
    }

    /// A request that is larger than all there is must not be refused for ever.
    @Test func oneIsServedHoweverLarge() throws {
        let budget = MemoryBudget(bytes: 1_000, bytesPerAddress: 300)
        let share = try #require(budget.take(5_000, for: here))
        #expect(budget.take(1, for: there) == nil)
        #expect(budget.take(1, for: here) == nil)
        withExtendedLifetime(share) {}
    }

    @Test func networksOfIPv6ShareOne() throws {
        let budget = MemoryBudget(bytes: 1_000, bytesPerAddress: 300)
        let share = budget.take(200, for: IPAddress("2001:db8::1"))
        #expect(budget.take(200, for: IPAddress("2001:db8::2")) == nil)
        #expect(budget.take(200, for: IPAddress("2001:db8:0:1::2")) != nil)
        withExtendedLifetime(share) {}
    }
}
