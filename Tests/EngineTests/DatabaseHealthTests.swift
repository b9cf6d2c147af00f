import Runtime
import Testing

@testable import Engine

/// Checks when the database counts as unavailable, and when writes are refused for it.
@Suite struct DatabaseHealthTests {
    private final class Time: Sendable {
        private let state = MutexBox<Int64>(1_000)
        @Sendable func now() -> Int64 { state.withLock { $0 } }
        func pass(_ milliseconds: Int64) { state.withLock { $0 += milliseconds } }
    }

    @Test func itIsDownUntilItHasAnswered() {
        let health = DatabaseHealth()
        #expect(!health.isUp)
        #expect(health.reason == "not connected yet")
        #expect(health.markUp())
        #expect(health.isUp && health.refusal == nil)
    }

    @Test func onlyChangesAreNews() {
        let health = DatabaseHealth()
        #expect(!health.markDown("first"))
        #expect(health.reason == "first")
        #expect(health.markUp())
        #expect(!health.markUp())
        #expect(health.markDown("second"))
        #expect(!health.markDown("third"))
        #expect(health.reason == "third", "the newest reason is told")
    }

    /// A reachable but unusable server is reported each time that the reason changes.
    @Test func anotherReasonIsNewsWhereItIsAsked() {
        let health = DatabaseHealth()
        _ = health.markUp()
        #expect(health.markDown("away"))
        #expect(health.markDown("a standby", isReported: true))
        #expect(!health.markDown("a standby", isReported: true))
        #expect(health.markDown("outdated", isReported: true))
        #expect(!health.markDown("away"))
    }

    /// A database that was just lost may be back before a write has to be refused.
    @Test func writesAreRefusedAfterAMoment() {
        let time = Time()
        let health = DatabaseHealth(now: time.now)
        _ = health.markUp()
        time.pass(60_000)
        _ = health.markDown("lost")
        #expect(health.refusal == nil)
        time.pass(999)
        #expect(health.refusal == nil)
        time.pass(1)
        #expect(health.refusal == "lost")
        _ = health.markDown("still lost")
        #expect(health.refusal == "still lost", "that it fails once more does not begin the time anew")
        _ = health.markUp()
        #expect(health.refusal == nil)
    }

    /// While the server does not even refuse connections, waiting is in vain: writes are refused at once.
    @Test func silenceRefusesAtOnceUntilItAnswers() {
        let time = Time()
        let health = DatabaseHealth(now: time.now)
        _ = health.markUp()
        _ = health.markDown("silent", isSilent: true)
        #expect(health.refusal == "silent")
        // An attempt that fails at once does not end the refusal.
        _ = health.markDown("refused")
        #expect(health.refusal == "refused")
        _ = health.markUp()
        _ = health.markDown("lost")
        #expect(health.refusal == nil)
    }

    @Test func howLongAgoItChanged() {
        let time = Time()
        let health = DatabaseHealth(now: time.now)
        time.pass(5)
        #expect(health.millisecondsSinceChange == 5)
        _ = health.markUp()
        time.pass(7)
        _ = health.markUp()
        #expect(health.millisecondsSinceChange == 7)
    }
}
