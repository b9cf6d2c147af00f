import Runtime
import Testing

@testable import Engine

/// Checks the order in which names are loaded, and the number of concurrent loads.
@Suite struct LoadQueueTests {
    @Test func inOrderAndBounded() {
        let queue = LoadQueue(loaders: 2, maxWaiting: 3)
        #expect(queue.next(milliseconds: 1) == nil)
        for name in ["a", "b", "c"] { #expect(queue.add(name) == nil) }
        #expect(queue.add("d") == .overloaded)
        #expect(queue.count == 3)
        #expect(queue.next(milliseconds: 1)?.name == "a")
        #expect(queue.add("d") == nil)
        #expect((0..<3).map { _ in queue.next(milliseconds: 1)?.name } == ["b", "c", "d"])
    }

    /// One of two loaders is always reserved for small namespaces.
    @Test func smallOnesDoNotWaitForLargeOnes() {
        let queue = LoadQueue(loaders: 2, maxWaiting: 100)
        for name in ["a", "b", "c"] { _ = queue.add(name) }
        guard var a = queue.next(milliseconds: 1), var b = queue.next(milliseconds: 1) else {
            Issue.record("there are jobs")
            return
        }
        #expect(queue.becomesLarge(&a) && queue.becomesLarge(&a))
        #expect(!queue.becomesLarge(&b))
        #expect(queue.postpone(b))
        #expect(queue.next(milliseconds: 1) == LoadQueue.Job(name: "c"))
        #expect(queue.next(milliseconds: 1) == nil, "a is still being loaded")
        queue.finished(a)
        _ = queue.add("d")
        #expect(queue.next(milliseconds: 1) == LoadQueue.Job(name: "b", isLarge: true))
        #expect(queue.next(milliseconds: 1) == LoadQueue.Job(name: "d"))
    }

    /// One loader alternates: neither kind waits for all of the other.
    @Test func oneLoaderTakesTurns() {
        let queue = LoadQueue(loaders: 1, maxWaiting: 100)
        for name in ["a", "b", "c", "d"] { _ = queue.add(name) }
        for name in ["x", "y"] { #expect(queue.postpone(LoadQueue.Job(name: name))) }
        var order: [String] = []
        while let job = queue.next(milliseconds: 1) {
            order.append(job.name)
            queue.finished(job)
        }
        #expect(order == ["x", "a", "y", "b", "c", "d"])
    }

    @Test func atTheEndNothingIsLoaded() {
        let queue = LoadQueue(loaders: 1, maxWaiting: 10)
        _ = queue.add("a")
        _ = queue.postpone(LoadQueue.Job(name: "b"))
        #expect(queue.stop() == ["a", "b"])
        #expect(queue.add("c") == .stopping)
        #expect(!queue.postpone(LoadQueue.Job(name: "d")))
        #expect(queue.next(milliseconds: 600_000) == nil && queue.isStopped && queue.count == 0)
    }
}
