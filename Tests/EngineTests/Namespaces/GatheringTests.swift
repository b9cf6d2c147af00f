import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// When a batch waits for the writers that were just answered.
@Suite struct GatheringTests {
    /// Nanoseconds that a batch took, and the longest wait.
    private let took: UInt64 = 300_000
    private let longest: UInt64 = 1_000_000

    private func after(answered: Int, waiting: Int, took: UInt64? = nil) -> Gathering {
        var gathering = Gathering(longest: longest)
        gathering.batchEnded(answered: answered, waiting: waiting, took: took ?? self.took, now: 1_000)
        return gathering
    }

    @Test func whoWritesAloneIsNotHeldUp() {
        #expect(after(answered: 1, waiting: 0).wait(queued: 1, now: 1_000) == nil)
        // Nor are two that take turns.
        #expect(after(answered: 1, waiting: 1).wait(queued: 1, now: 1_000) == nil)
    }

    @Test func theFirstBatchBeginsAtOnce() {
        #expect(Gathering(longest: longest).wait(queued: 1, now: 0) == nil)
    }

    @Test func threeQuartersAreWaitedFor() {
        let gathering = after(answered: 6, waiting: 2)
        #expect(gathering.wait(queued: 5, now: 1_000)?.expected == 6)
        #expect(gathering.wait(queued: 6, now: 1_000) == nil)
    }

    @Test func manyAreNotWaitedFor() {
        #expect(after(answered: 10, waiting: 6).wait(queued: 11, now: 1_000)?.expected == 12)
        #expect(after(answered: 10, waiting: 7).wait(queued: 7, now: 1_000) == nil)
    }

    @Test func theWaitIsNoLongerThanTheLastBatchTook() {
        let gathering = after(answered: 6, waiting: 2)
        #expect(gathering.wait(queued: 1, now: 1_000 + took - 1)?.deadline == 1_000 + took)
        #expect(gathering.wait(queued: 1, now: 1_000 + took) == nil)
        // A batch that waited for somebody's lock for a second is no reason to wait for a second.
        #expect(
            after(answered: 6, waiting: 2, took: 1_000_000_000).wait(queued: 1, now: 1_000)?.deadline == 1_000 + longest
        )
    }

    @Test func nobodyWaitsWhereThatIsSwitchedOff() {
        var gathering = Gathering(longest: 0)
        gathering.batchEnded(answered: 6, waiting: 2, took: took, now: 1_000)
        #expect(gathering.wait(queued: 1, now: 1_000) == nil)
    }

    /// The committer has come to follow the log: that waits for no writes.
    @Test func withoutWritesThereIsNothingToWaitFor() {
        #expect(after(answered: 6, waiting: 2).wait(queued: 0, now: 1_000) == nil)
    }

    // MARK: In the schedule

    @Test func theWriteThatIsWaitedForEndsTheWait() {
        var schedule = NamespaceSchedule(head: 0, gathering: after(answered: 4, waiting: 0))
        let desk = GatheringDesk(false)
        _ = schedule.add(.test(1), EngineSettings(), outage: nil)
        #expect(schedule.gather(at: desk, now: 1_000) == 1_000 + took)
        #expect(schedule.takeGatherer() == nil)
        _ = schedule.add(.test(2), EngineSettings(), outage: nil)
        #expect(schedule.takeGatherer() == nil)
        _ = schedule.add(.test(3), EngineSettings(), outage: nil)
        #expect(schedule.takeGatherer() === desk)
        // It is told once.
        #expect(schedule.takeGatherer() == nil)
    }

    @Test func whoHasStoppedWaitingIsNotTold() {
        var schedule = NamespaceSchedule(head: 0, gathering: after(answered: 4, waiting: 0))
        _ = schedule.add(.test(1), EngineSettings(), outage: nil)
        #expect(schedule.gather(at: GatheringDesk(false), now: 1_000) != nil)
        schedule.stopGathering()
        for token in 2...8 { _ = schedule.add(.test(UInt64(token)), EngineSettings(), outage: nil) }
        #expect(schedule.takeGatherer() == nil)
    }

    // MARK: In a namespace

    /// A wait for as long as this machine has been up, an hour at most: it ends as soon as the writes are there.
    @Test func aCommitterWaitsUntilTheWritesAreThere() {
        var settings = EngineSettings()
        settings.batchWaitMicroseconds = 3_600_000_000
        let namespace = LiveNamespace.test(.null, settings)
        namespace.enqueue(.test(1))
        namespace.batchEnded(writes: 3, since: 0)
        let isOver = Condition(false)
        let committer = Thread(name: "gatherer") {
            namespace.gather(at: GatheringDesk(false))
            isOver.signal { $0 = true }
        }
        defer { committer.join() }
        namespace.enqueue(.test(2))
        #expect(isOver.withLock { !$0 })
        namespace.enqueue(.test(3))
        #expect(isOver.wait(milliseconds: 10_000) { $0 ? true : nil } == true)
    }
}
