import Runtime
import Testing

@testable import Gateway

/// Tests of the directory through which loops find realtime sessions of other loops.
@Suite struct SessionDirectoryTests {
    /// A loop's sessions. Only counts its calls.
    private final class Loop: SessionLoop {
        let closed = Counter()
        let followed = Counter()

        func post(
            to id: String, otherwise: @escaping @Sendable () -> Void,
            _ work: @escaping @Sendable (RealtimeSession) -> Void
        ) {
            otherwise()
        }

        func end(_ id: String, _ completion: @escaping @Sendable () -> Void) { completion() }
        func closeAll(in database: Int) { closed.add() }
        func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey) { followed.add() }
    }

    private let directory = SessionDirectory()
    private let one = Loop()
    private let two = Loop()

    @Test func sessionsAreFoundUntilTheyEnd() {
        #expect(directory.sessionLoop(of: "a") == nil)
        #expect(directory.anySessionLoop == nil)
        directory.add("a", one)
        directory.add("b", two)
        #expect(directory.sessionLoop(of: "a") === one && directory.sessionLoop(of: "b") === two)
        directory.remove("a")
        #expect(directory.sessionLoop(of: "a") == nil)
        #expect(directory.anySessionLoop === two)
    }

    /// Checks that a loop with many sessions is notified once.
    @Test func everyLoopClosesItsSessions() {
        for number in 0..<10 { directory.add("one\(number)", one) }
        directory.add("two", two)
        directory.closeAll(in: 0)
        #expect(one.closed.current == 1 && two.closed.current == 1)
        for number in 0..<10 { directory.remove("one\(number)") }
        directory.closeAll(in: 0)
        #expect(one.closed.current == 1 && two.closed.current == 2)
    }

    @Test func theEndIsWaitedFor() {
        directory.waitUntilEmpty(milliseconds: 0)
        directory.add("a", one)
        let isOver = Condition(false)
        let waiter = Thread(name: "waiter") { [directory] in
            directory.waitUntilEmpty(milliseconds: 20_000)
            isOver.broadcast { $0 = true }
        }
        #expect(isOver.wait(milliseconds: 20) { $0 ? true : nil } == nil)
        directory.remove("a")
        #expect(isOver.wait(milliseconds: 20_000) { $0 ? true : nil } == true)
        waiter.join()
    }

    @Test func theWaitHasAnEnd() {
        directory.add("a", one)
        let start = Clock.monotonicMilliseconds
        directory.waitUntilEmpty(milliseconds: 30)
        #expect(Clock.monotonicMilliseconds - start >= 30)
    }

    @Test func tokensCanNotBeGuessed() {
        let tokens = Set((0..<1_000).map { _ in SessionDirectory.makeToken() })
        #expect(tokens.count == 1_000)
        for token in tokens {
            #expect(token.utf8.count == 32)
            #expect(token.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        }
    }
}
