import HTTPServer
import Runtime
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
        // A request without a share of its own is limited by the total only.
        let free = try #require(budget.take(400, for: nil))
        #expect(budget.take(1, for: nil) == nil)
        withExtendedLifetime((first, other, free)) {}
    }

    /// A restore is not refused forever because of its size, as long as other requests take little.
    @Test func unlimitedClientsAreServedWhileOthersTakeLittle() throws {
        let budget = MemoryBudget(bytes: 1_000, bytesPerAddress: 800)
        let other = try #require(budget.take(500, for: here))
        let body = try #require(budget.take(2_000, for: nil))
        let parsed = try #require(budget.take(0, for: nil, beside: 2_000))
        #expect(parsed.grow(by: 5_000))
        #expect(!other.grow(by: 1))
        #expect(budget.take(1, for: nil) == nil)
        withExtendedLifetime((other, body, parsed)) {}
    }

    @Test func releasedBytesAreAvailableAgain() throws {
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

    /// A request that is larger than the whole budget must not be refused forever.
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

    @Test func theLastSixteenthIsForSmallShares() throws {
        let mebibyte = 1024 * 1024
        let budget = MemoryBudget(bytes: 16 * mebibyte)
        let large = try #require(budget.take(15 * mebibyte, for: here))
        #expect(budget.take(65_537, for: there) == nil)
        let small = try #require(budget.take(65_536, for: there))
        #expect(!small.grow(by: 1), "together they are no small share any more")
        #expect(large.bytes + small.bytes == budget.taken)
    }
}
