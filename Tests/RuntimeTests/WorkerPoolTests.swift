import Glibc
import Runtime
import Testing

/// Checks that a bounded pool runs each job once, in order, and none after the end.
@Suite struct WorkerPoolTests {
    @Test(arguments: [-1, 0, 1, 3]) func runsEachJobOnce(threads: Int) {
        let pool = WorkerPool(name: "pool", threads: threads)
        let count = Condition(0)
        for _ in 0..<500 { #expect(pool.submit { count.signal { $0 += 1 } }) }
        #expect(count.wait(milliseconds: 20_000) { $0 >= 500 ? true : nil } == true)
        pool.stop()
        #expect(count.withLock { $0 } == 500)
        #expect(!pool.submit {})
    }

    /// One worker runs jobs in order of arrival, also after the queue's storage was compacted.
    @Test func keepsTheOrder() {
        let pool = WorkerPool(name: "pool", threads: 1, capacity: 10_000)
        let gate = Condition(false)
        let done = Condition<[Int]>([])
        #expect(pool.submit { _ = gate.wait { $0 ? true : nil } })
        for number in 0..<5_000 { #expect(pool.submit { done.signal { $0.append(number) } }) }
        gate.broadcast { $0 = true }
        #expect(done.wait(milliseconds: 20_000) { $0.count == 5_000 ? true : nil } == true)
        pool.stop()
        #expect(done.withLock { $0 } == Array(0..<5_000))
    }

    @Test(arguments: [1, 3, 100]) func refusesOverItsBound(capacity: Int) {
        let pool = WorkerPool(name: "pool", threads: 1, capacity: capacity)
        let gate = Condition((isBusy: false, isOpen: false))
        let ran = Condition(0)
        #expect(
            pool.submit {
                gate.broadcast { $0.isBusy = true }
                _ = gate.wait { $0.isOpen ? true : nil }
            })
        // The only thread has the job; the queue is empty.
        _ = gate.wait { $0.isBusy ? true : nil }
        let taken = (0..<capacity + 3).filter { _ in pool.submit { ran.signal { $0 += 1 } } }
        #expect(taken == Array(0..<capacity))
        gate.broadcast { $0.isOpen = true }
        #expect(ran.wait(milliseconds: 20_000) { $0 == capacity ? true : nil } == true)
        // There is space again.
        #expect(pool.submit {})
        pool.stop()
    }

    /// A stop waits for the running job, and discards waiting jobs with their captured objects.
    @Test func stoppingForgetsWhatWaits() {
        final class Held: Sendable {}
        weak var held: Held?
        let pool = WorkerPool(name: "pool", threads: 1)
        let gate = Condition((isBusy: false, isOpen: false, ran: [String]()))
        _ = pool.submit {
            gate.broadcast { $0.isBusy = true }
            _ = gate.wait { $0.isOpen ? true : nil }
            gate.broadcast { $0.ran.append("first") }
        }
        _ = gate.wait { $0.isBusy ? true : nil }
        do {
            let object = Held()
            held = object
            _ = pool.submit {
                gate.broadcast { [object] in
                    withExtendedLifetime(object) {}
                    $0.ran.append("second")
                }
            }
        }
        let stopper = Thread(name: "stopper") { pool.stop() }
        // Until the pool has released the waiting jobs.
        for _ in 0..<20_000 where held != nil { usleep(1_000) }
        #expect(held == nil)
        gate.broadcast { $0.isOpen = true }
        stopper.join()
        #expect(gate.withLock { $0.ran } == ["first"])
    }

    /// A job may submit another: no thread waits with the pool's lock held.
    @Test func jobsMaySubmitJobs() {
        let pool = WorkerPool(name: "pool", threads: 2)
        let count = Condition(0)
        @Sendable func step(_ left: Int) {
            count.signal { $0 += 1 }
            if left > 0 { _ = pool.submit { step(left - 1) } }
        }
        _ = pool.submit { step(199) }
        #expect(count.wait(milliseconds: 20_000) { $0 == 200 ? true : nil } == true)
        pool.stop()
    }
}
