import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks the record of the threads that work in the database, and since when.
@Suite struct ActiveDatabaseCallsTests {
    @Test func onlyWaitersThatWaitForSoLong() {
        let stays = ActiveDatabaseCalls()
        #expect(stays.pids(longerThan: 0).isEmpty)
        stays.enter(0, pid: 100)
        stays.enter(1, pid: 101)
        #expect(stays.pids(longerThan: 0).sorted() == [100, 101])
        #expect(stays.pids(longerThan: 60_000).isEmpty)
        stays.leave(0)
        #expect(stays.pids(longerThan: 0) == [101])
        // A thread may leave twice, or without having entered.
        stays.leave(0)
        stays.leave(9)
        stays.leave(1)
        #expect(stays.pids(longerThan: 0).isEmpty)
    }

    /// Each attempt is timed from its own start.
    @Test func enteringAgainStartsOver() {
        let stays = ActiveDatabaseCalls()
        stays.enter(0, pid: 100)
        #expect(eventually { stays.pids(longerThan: 30) == [100] })
        let before = Clock.monotonicMilliseconds
        stays.enter(0, pid: 200)
        let pids = stays.pids(longerThan: 30)
        #expect(pids.isEmpty || Clock.monotonicMilliseconds - before >= 30)
        #expect(stays.pids(longerThan: 0) == [200])
    }

    @Test func thePauseEndsWithTheEngine() {
        let stays = ActiveDatabaseCalls()
        #expect(stays.pause(milliseconds: 1))
        let isOver = MutexBox(false)
        let watch = Thread(name: "watch") {
            let continues = stays.pause(milliseconds: 60_000)
            isOver.withLock { $0 = !continues }
        }
        stays.stop()
        watch.join()
        #expect(isOver.withLock { $0 })
        #expect(!stays.pause(milliseconds: 60_000))
    }
}
