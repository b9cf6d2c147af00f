import LogStore
import Runtime
import Testing

@testable import Engine

/// Checks the queue of the lease's thread: see `LeaseJobs`.
@Suite struct LeaseJobsTests {
    private let jobs = LeaseJobs()

    private func message(_ text: String) throws -> LeaseJob { .notify(text) }

    /// Returns the texts of the queued jobs.
    private func rest() -> [String] {
        var texts: [String] = []
        while case .job(.notify(let text)) = jobs.next(milliseconds: 0) { texts.append(text) }
        return texts
    }

    private var isStopped: Bool { if case .stop = jobs.next(milliseconds: 0) { true } else { false } }

    @Test func jobsAreDoneInTheirOrder() throws {
        for text in ["a", "b", "c"] { jobs.add(try message(text)) }
        #expect(rest() == ["a", "b", "c"])
        #expect(rest() == [])
    }

    @Test func retriesWaitUntilTheDatabaseAnswers() throws {
        jobs.retry(try message("a"))
        jobs.retry(try message("b"))
        #expect(rest() == [])
        jobs.add(try message("c"))
        jobs.addRetries()
        jobs.add(try message("d"))
        #expect(rest() == ["c", "a", "b", "d"])
        jobs.addRetries()
        #expect(rest() == [])
    }

    @Test func waitingEndsAfterAWhile() {
        let start = Clock.monotonicMilliseconds
        guard case .nothing = jobs.next(milliseconds: 30) else {
            Issue.record("there is nothing to do")
            return
        }
        #expect(Clock.monotonicMilliseconds - start >= 30)
    }

    @Test func waitingEndsWithAJob() throws {
        let taken = Condition<String?>(nil)
        let thread = Thread(name: "waiting") { [jobs] in
            guard case .job(.notify(let text)) = jobs.next(milliseconds: 60_000) else { return }
            taken.broadcast { $0 = text }
        }
        jobs.add(try message("a"))
        #expect(taken.wait(milliseconds: 20_000) { $0 } == "a")
        thread.join()
    }

    @Test func stoppingEndsWaitingForGood() throws {
        let isOver = Condition(false)
        let thread = Thread(name: "waiting") { [jobs] in
            while true {
                if case .stop = jobs.next(milliseconds: 60_000) { break }
            }
            isOver.broadcast { $0 = true }
        }
        jobs.stop()
        #expect(isOver.wait(milliseconds: 20_000) { $0 ? true : nil } == true)
        thread.join()
        // Jobs left after a stop are not executed.
        jobs.add(try message("late"))
        #expect(isStopped)
    }
}
