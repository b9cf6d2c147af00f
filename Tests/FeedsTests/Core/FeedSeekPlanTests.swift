import LogStore
import Testing

@testable import Feeds

@Suite struct FeedSeekPlanTests {
    private static func plan(
        _ progress: FeedProgress, to: Int64, isSnapshot: Bool = false, retainedFrom: Int64 = 1
    ) -> FeedSeekPlan {
        FeedSeekPlan(progress, to: to, isSnapshot: isSnapshot, retainedFrom: retainedFrom)
    }

    @Test func entriesAreSkippedOrRepeated() {
        let progress = FeedProgress(seq: 40)
        let forward = Self.plan(progress, to: 160)
        #expect(forward.from == 40 && forward.skipped == 120 && forward.repeated == 0 && forward.isNoticed)
        let back = Self.plan(progress, to: 10)
        #expect(back.skipped == 0 && back.repeated == 30 && back.isNoticed)
        #expect(!Self.plan(progress, to: 40).isNoticed)
        let snapshot = Self.plan(progress, to: 40, isSnapshot: true)
        #expect(snapshot.skipped == 0 && snapshot.repeated == 0 && snapshot.isNoticed)
    }

    /// Messages after one that is still held may be acknowledged.
    @Test func messagesThatAreDoneOutOfOrderComeAgain() throws {
        let ranges = [FeedPosition(seq: 50, index: 0)...FeedPosition(seq: 60, index: 2)]
        let progress = FeedProgress(seq: 40, done: try #require(PositionRanges(ranges)))
        #expect(Self.plan(progress, to: 40).repeated == 20)
        let between = Self.plan(progress, to: 55)
        #expect(between.skipped == 15 && between.repeated == 5)
    }

    @Test func theWayBack() {
        #expect(Self.plan(FeedProgress(seq: 4), to: 9, retainedFrom: 5).isRetained)
        #expect(!Self.plan(FeedProgress(seq: 3), to: 9, retainedFrom: 5).isRetained)
        #expect(Self.plan(FeedProgress(seq: 3, snapshotSeq: 4), to: 9).wasInSnapshot)
    }
}
