import Runtime
import Testing

/// Checks the rule by which groups and their members share a bounded resource.
@Suite struct FairLedgerTests {
    /// A reference to the ledger, as `#expect` accepts no mutating calls.
    private final class Ledger {
        var units: FairLedger<String, String>

        init(capacity: Int) { units = FairLedger(capacity: capacity) }

        var used: Int { units.used }
        var free: Int { units.free }
        func take(for member: String, of group: String) -> Bool { units.take(for: member, of: group) }
        func allows(_ amount: Int, for member: String, of group: String) -> Bool {
            units.allows(amount, for: member, of: group)
        }
        func release(_ amount: Int = 1, by member: String, of group: String) {
            units.release(amount, by: member, of: group)
        }
    }

    private static func fill(_ ledger: Ledger, _ group: String, members: Int, limit: Int = .max) -> Int {
        var taken = 0
        var isFull = false
        while !isFull, taken < limit {
            isFull = true
            for member in 0..<members where taken < limit && ledger.take(for: "\(member)", of: group) {
                taken += 1
                isFull = false
            }
        }
        return taken
    }

    @Test func oneMemberGetsAQuarter() {
        let ledger = Ledger(capacity: 1_000)
        #expect(Self.fill(ledger, "a", members: 1) == 250)
    }

    @Test func oneGroupGetsHalf() {
        let ledger = Ledger(capacity: 1_000)
        let taken = Self.fill(ledger, "a", members: 200)
        #expect((490...500).contains(taken))
    }

    @Test(arguments: [1, 2, 3, 7, 1_000]) func aNewGroupFindsRoomBesideOneBusyGroup(capacity: Int) {
        let ledger = Ledger(capacity: capacity)
        let taken = Self.fill(ledger, "a", members: 1_000)
        #expect(taken >= 1)
        #expect(capacity == 1 || ledger.take(for: "0", of: "b"))
        #expect(ledger.used <= capacity)
    }

    @Test func aNewMemberFindsRoomBesideBusyMembers() {
        let ledger = Ledger(capacity: 1_000)
        let taken = Self.fill(ledger, "a", members: 17)
        #expect(taken > 400)
        #expect(ledger.take(for: "new", of: "a"))
    }

    @Test func busyGroupsGetEqualShares() {
        let ledger = Ledger(capacity: 1_000)
        // All groups request units in turn.
        var taken = [0, 0, 0, 0]
        for round in 0..<2_000 {
            for group in taken.indices where ledger.take(for: "\(round % 100)", of: "\(group)") { taken[group] += 1 }
        }
        for count in taken { #expect((180...201).contains(count)) }
        #expect(ledger.free >= 190)
    }

    @Test func amountsFollowTheSameRuleAsSingleUnits() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let ledger = Ledger(capacity: Int.random(in: 1...200, using: &generator))
            for step in 0..<10 {
                ledger.units.charge(Int.random(in: 0...9, using: &generator), to: "\(step % 3)", of: "\(step % 4)")
            }
            let amount = Int.random(in: 1...60, using: &generator)
            var unitByUnit = ledger.units
            var all = true
            for _ in 0..<amount { all = unitByUnit.take(for: "0", of: "0") && all }
            #expect(ledger.allows(amount, for: "0", of: "0") == all)
        }
    }

    @Test func hugeAmountsAreRefused() {
        let ledger = Ledger(capacity: 100)
        #expect(!ledger.allows(.max, for: "a", of: "a"))
        #expect(!ledger.allows(26, for: "a", of: "a"))
        #expect(ledger.allows(25, for: "a", of: "a"))
    }

    @Test func releasesNoMoreThanIsHeld() {
        let ledger = Ledger(capacity: 10)
        #expect(ledger.take(for: "m", of: "a"))
        ledger.release(5, by: "m", of: "a")
        ledger.release(by: "m", of: "a")
        ledger.release(by: "other", of: "b")
        #expect(ledger.used == 0)
        #expect(ledger.units.groupCount == 0)
        ledger.units.charge(30, to: "m", of: "a")
        #expect(ledger.free == 0)
        ledger.units.releaseAll(by: "m", of: "a")
        #expect(ledger.free == 10)
    }
}
