import Testing

@testable import LogStore

/// Goal: writers are held up when no further round would make that shorter, and never behind a long one in which much came.
@Suite struct CopyApproachTests {
    /// After which of these rounds writers are held up; each of so many milliseconds, with many entries.
    private static func last(of rounds: [Int64]) -> Int? {
        var approach = CopyApproach()
        return rounds.firstIndex { approach.isNear(entries: 10_000, milliseconds: $0) }
    }

    @Test func roundsGoOnWhileTheyGetShorter() {
        #expect(Self.last(of: [9_000, 3_000, 900, 300, 120, 50, 40]) == 5)
        #expect(Self.last(of: [9_000, 3_000, 900, 700, 300, 100]) == 3)
        #expect(Self.last(of: [900, 600, 440, 400, 10]) == 3)
        #expect(Self.last(of: [50]) == 0)
        // The first one has nothing to be compared with.
        #expect(Self.last(of: [500, 500]) == 1)
    }

    @Test func aLongRoundIsNeverTheLast() {
        #expect(Self.last(of: [5_000, 5_000, 4_900, 1_000, 1_000]) == nil)
    }

    @Test func littleIsNear() {
        var approach = CopyApproach()
        // While the whole tree was copied there was little; what came meanwhile is not known.
        let isNearAtFirst = approach.isNear(entries: 199, milliseconds: 60_000)
        #expect(!isNearAtFirst)
        let isNear = approach.isNear(entries: 199, milliseconds: 2_000)
        #expect(isNear)
    }
}
