import Testing

@testable import LogStore

/// Checks that writers are blocked once no further round would shorten the pause, and never after a long round with
/// many new entries.
@Suite struct CopyApproachTests {
    /// Returns the round after which writers are blocked. Each round takes the given milliseconds and has many entries.
    private static func last(of rounds: [Int64]) -> Int? {
        var approach = CopyApproach()
        return rounds.firstIndex { approach.isNear(entries: 10_000, milliseconds: $0) }
    }

    @Test func roundsContinueWhileTheyGetShorter() {
        #expect(Self.last(of: [9_000, 3_000, 900, 300, 120, 50, 40]) == 5)
        #expect(Self.last(of: [9_000, 3_000, 900, 700, 300, 100]) == 3)
        #expect(Self.last(of: [900, 600, 440, 400, 10]) == 3)
        #expect(Self.last(of: [50]) == 0)
        // The first round has no predecessor to compare with.
        #expect(Self.last(of: [500, 500]) == 1)
    }

    @Test func aLongRoundIsNeverTheLast() {
        #expect(Self.last(of: [5_000, 5_000, 4_900, 1_000, 1_000]) == nil)
    }

    @Test func littleIsNear() {
        var approach = CopyApproach()
        // Few entries were known during the copy of the whole tree, but the number of later ones is unknown.
        let isNearAtFirst = approach.isNear(entries: 199, milliseconds: 60_000)
        #expect(!isNearAtFirst)
        let isNear = approach.isNear(entries: 199, milliseconds: 2_000)
        #expect(isNear)
    }
}
