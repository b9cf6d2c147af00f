import Runtime
import Testing

@testable import pathmirror

/// Checks that all items are processed at the same time.
@Suite struct ConcurrentlyTests {
    @Test func eachWaitsForAllOthers() {
        let arrived = Condition(0)
        let met = MutexBox(0)
        Concurrently.run([1, 2, 3]) { _ in
            arrived.broadcast { $0 += 1 }
            // One after another, the first would wait in vain.
            if arrived.wait(milliseconds: 20_000, until: { $0 == 3 ? true : nil }) == true { met.withLock { $0 += 1 } }
        }
        #expect(met.withLock { $0 } == 3)
    }

    @Test func oneAndNone() {
        let done = MutexBox<[Int]>([])
        Concurrently.run([Int]()) { item in done.withLock { $0.append(item) } }
        #expect(done.withLock { $0 }.isEmpty)
        Concurrently.run([7]) { item in done.withLock { $0.append(item) } }
        #expect(done.withLock { $0 } == [7])
    }
}
