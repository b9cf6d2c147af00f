import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks when a batch waits for the writers that were just answered.
@Suite struct CommitDelayTests {
    /// The nanoseconds that a batch took. `longest`: the longest wait.
    private let took: UInt64 = 300_000
    private let longest: UInt64 = 1_000_000

    private func after(answered: Int, waiting: Int, took: UInt64? = nil) -> CommitDelay {
        var commitDelay = CommitDelay(longest: longest)
        commitDelay.batchEnded(answered: answered, waiting: waiting, took: took ?? self.took, now: 1_000)
        return commitDelay
    }

    @Test func aSingleWriterIsNotDelayed() {
        #expect(after(answered: 1, waiting: 0).wait(queued: 1, now: 1_000) == nil)
        // Neither do two writers that alternate.
        #expect(after(answered: 1, waiting: 1).wait(queued: 1, now: 1_000) == nil)
    }

    @Test func theFirstBatchBeginsAtOnce() {
        #expect(CommitDelay(longest: longest).wait(queued: 1, now: 0) == nil)
    }

    @Test func threeQuartersAreWaitedFor() {
        let commitDelay = after(answered: 6, waiting: 2)
        #expect(commitDelay.wait(queued: 5, now: 1_000)?.expected == 6)
        #expect(commitDelay.wait(queued: 6, now: 1_000) == nil)
    }

    @Test func manyAreNotWaitedFor() {
        #expect(after(answered: 10, waiting: 6).wait(queued: 11, now: 1_000)?.expected == 12)
        #expect(after(answered: 10, waiting: 7).wait(queued: 7, now: 1_000) == nil)
    }

    @Test func theWaitIsNoLongerThanTheLastBatchTook() {
        let commitDelay = after(answered: 6, waiting: 2)
        #expect(commitDelay.wait(queued: 1, now: 1_000 + took - 1)?.deadline == 1_000 + took)
        #expect(commitDelay.wait(queued: 1, now: 1_000 + took) == nil)
        // A batch that waited one second for a lock is no reason to wait a second.
        #expect(
            after(answered: 6, waiting: 2, took: 1_000_000_000).wait(queued: 1, now: 1_000)?.deadline == 1_000 + longest
        )
    }

    @Test func noWaitWhereThatIsSwitchedOff() {
        var commitDelay = CommitDelay(longest: 0)
        commitDelay.batchEnded(answered: 6, waiting: 2, took: took, now: 1_000)
        #expect(commitDelay.wait(queued: 1, now: 1_000) == nil)
    }

    /// A committer that only follows the log waits for no writes.
    @Test func withoutWritesThereIsNothingToWaitFor() {
        #expect(after(answered: 6, waiting: 2).wait(queued: 0, now: 1_000) == nil)
    }

    // MARK: After a batch that is being committed

    @Test func eachOfTheBatchesInFlightGetsItsShare() {
        var commitDelay = after(answered: 30, waiting: 34)
        #expect(commitDelay.pipelinedWrites(batches: 2) == 24)
        #expect(commitDelay.pipelinedWrites(batches: 4) == 12)
        #expect(commitDelay.pipelinedWrites(batches: 1) == nil)
        // Writes in flight count as well.
        commitDelay.batchEnded(answered: 20, waiting: 0, inFlight: 60, took: took, now: 2_000)
        #expect(commitDelay.pipelinedWrites(batches: 2) == 30)
    }

    /// Writers that were just answered are in none of the counts, so the estimate decreases slowly.
    @Test func aShortBatchDoesNotMakeThemFew() {
        var commitDelay = after(answered: 30, waiting: 34)
        commitDelay.batchEnded(answered: 2, waiting: 1, took: took, now: 2_000)
        #expect(commitDelay.pipelinedWrites(batches: 2) == 56 * 3 / 8)
        for _ in 0..<100 { commitDelay.batchEnded(answered: 1, waiting: 0, took: took, now: 3_000) }
        #expect(commitDelay.pipelinedWrites(batches: 2) == nil)
    }

    @Test func whatWasForNothingIsNotTriedAtOnce() {
        var commitDelay = after(answered: 64, waiting: 0)
        commitDelay.wasForNothing()
        for _ in 0..<16 {
            #expect(commitDelay.pipelinedWrites(batches: 2) == nil)
            commitDelay.batchEnded(answered: 64, waiting: 0, took: took, now: 2_000)
        }
        #expect(commitDelay.pipelinedWrites(batches: 2) == 24)
    }

    /// A few writes had better share one transaction.
    @Test func fewAreNotDivided() {
        #expect(after(answered: 10, waiting: 6).pipelinedWrites(batches: 2) == nil)
        #expect(after(answered: 17, waiting: 0).pipelinedWrites(batches: 8) == 1)
        #expect(CommitDelay(longest: longest).pipelinedWrites(batches: 2) == nil)
    }

    // MARK: In the schedule

    private func schedule(queued: Int) -> NamespaceSchedule {
        var schedule = NamespaceSchedule(head: 10, commitDelay: after(answered: 40, waiting: 0))
        for token in 0..<queued { _ = schedule.add(.test(UInt64(token)), EngineSettings(), outage: nil) }
        return schedule
    }

    @Test func enoughIsTakenAfterABatch() {
        var schedule = schedule(queued: 15)
        guard
            case .batch(let batch) = schedule.takePipelinedTask(
                10, EngineSettings(), signal: CommitDelayCondition(false))
        else {
            Issue.record("15 of 40 are enough for a second batch")
            return
        }
        #expect(batch.count == 15 && schedule.waitingWrites == 0)
    }

    @Test func whatIsPutBackComesFirst() {
        var schedule = schedule(queued: 15)
        guard
            case .batch(let batch) = schedule.takePipelinedTask(
                10, EngineSettings(), signal: CommitDelayCondition(false))
        else {
            Issue.record("15 of 40 are enough for a second batch")
            return
        }
        _ = schedule.add(.test(15), EngineSettings(), outage: nil)
        schedule.putBack(batch)
        #expect(schedule.takeTask(EngineSettings()).batch.map(\.token) == Array(0...15))
    }

    /// A few large values had better be committed together.
    @Test func largeValuesAreNotDivided() {
        var schedule = NamespaceSchedule(head: 10, commitDelay: after(answered: 40, waiting: 0))
        for token in 0..<30 as Range<UInt64> {
            _ = schedule.add(.test(token, bytes: 65_536), EngineSettings(), outage: nil)
        }
        guard case .no = schedule.takePipelinedTask(10, EngineSettings(), signal: CommitDelayCondition(false)) else {
            Issue.record("four of them would go")
            return
        }
        #expect(schedule.takeTask(EngineSettings()).batch.map(\.token) == Array(0..<30))
    }

    /// With many batches in flight each may expect only one write: a large one is not sent after another batch.
    @Test func aSingleLargeValueIsNotPipelined() {
        var settings = EngineSettings()
        settings.batchesInFlight = 8
        for (bytes, goes) in [(1 << 18, true), ((1 << 18) + 1, false)] {
            var schedule = NamespaceSchedule(head: 10, commitDelay: after(answered: 17, waiting: 0))
            _ = schedule.add(.test(1, bytes: bytes), settings, outage: nil)
            let isTaken =
                if case .batch = schedule.takePipelinedTask(10, settings, signal: CommitDelayCondition(false)) {
                    true
                } else {
                    false
                }
            #expect(isTaken == goes, "\(bytes) bytes")
            #expect(schedule.waitingWrites == (goes ? 0 : 1))
        }
    }

    @Test func theSignalComesWhenEnoughIsThere() {
        var schedule = schedule(queued: 13)
        let delaySignal = CommitDelayCondition(false)
        guard case .notYet = schedule.takePipelinedTask(10, EngineSettings(), signal: delaySignal) else {
            Issue.record("13 of 40 are not enough for a second batch")
            return
        }
        #expect(schedule.takeDelayed() == nil)
        for token in 13..<15 as Range<UInt64> { _ = schedule.add(.test(token), EngineSettings(), outage: nil) }
        #expect(schedule.takeDelayed() === delaySignal)
    }

    @Test func nothingIsTakenWhereOthersWrite() {
        var moved = schedule(queued: 20)
        _ = moved.headSeen(11, known: 10)
        var contended = schedule(queued: 20)
        contended.noteContention(true)
        var suspect = schedule(queued: 20)
        _ = suspect.suspect()
        for var schedule in [moved, contended, suspect] {
            guard case .no = schedule.takePipelinedTask(10, EngineSettings(), signal: CommitDelayCondition(false))
            else {
                Issue.record("what is behind may be for nothing")
                return
            }
            #expect(schedule.waitingWrites == 20)
        }
        // The batch in flight is already known.
        guard case .batch = moved.takePipelinedTask(11, EngineSettings(), signal: CommitDelayCondition(false)) else {
            Issue.record("that is the head that will be")
            return
        }
    }

    @Test func theWriteThatIsWaitedForEndsTheWait() {
        var schedule = NamespaceSchedule(head: 0, commitDelay: after(answered: 4, waiting: 0))
        let delaySignal = CommitDelayCondition(false)
        _ = schedule.add(.test(1), EngineSettings(), outage: nil)
        #expect(schedule.delayCommit(with: delaySignal, now: 1_000) == 1_000 + took)
        #expect(schedule.takeDelayed() == nil)
        _ = schedule.add(.test(2), EngineSettings(), outage: nil)
        #expect(schedule.takeDelayed() == nil)
        _ = schedule.add(.test(3), EngineSettings(), outage: nil)
        #expect(schedule.takeDelayed() === delaySignal)
        // The waiting committer is notified once.
        #expect(schedule.takeDelayed() == nil)
    }

    @Test func endedWaitersAreNotNotified() {
        var schedule = NamespaceSchedule(head: 0, commitDelay: after(answered: 4, waiting: 0))
        _ = schedule.add(.test(1), EngineSettings(), outage: nil)
        #expect(schedule.delayCommit(with: CommitDelayCondition(false), now: 1_000) != nil)
        schedule.endDelay()
        for token in 2...8 { _ = schedule.add(.test(UInt64(token)), EngineSettings(), outage: nil) }
        #expect(schedule.takeDelayed() == nil)
    }

    // MARK: In a namespace

    /// The wait is as long as the machine's uptime, at most an hour: it ends as soon as the writes arrive.
    @Test func aCommitterWaitsUntilTheWritesAreThere() {
        var settings = EngineSettings()
        settings.batchWaitMicroseconds = 3_600_000_000
        let namespace = LiveNamespace.test(.null, settings)
        namespace.enqueue(.test(1))
        namespace.batchEnded(writes: 3, since: 0)
        let isOver = Condition(false)
        let committer = Thread(name: "gatherer") {
            namespace.delayCommit(with: CommitDelayCondition(false))
            isOver.signal { $0 = true }
        }
        defer { committer.join() }
        namespace.enqueue(.test(2))
        #expect(isOver.withLock { !$0 })
        namespace.enqueue(.test(3))
        #expect(isOver.wait(milliseconds: 10_000) { $0 ? true : nil } == true)
    }
}
