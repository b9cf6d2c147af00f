import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that waiting large writes are kept in order, bounded, and all answered.
@Suite struct LargeQueueTests {
    private static let namespace = LiveNamespace.test()

    @Test func oneAtATimeInOrder() {
        let queue = LargeQueue()
        #expect(queue.isIdle)
        for token in 0..<3 as Range<UInt64> { queue.add(.test(token), in: Self.namespace) }
        #expect(!queue.isIdle)
        for token in 0..<3 as Range<UInt64> { #expect(queue.next()?.item.token == token) }
        #expect(!queue.isIdle, "the last one is being worked on")
        queue.stop()
        #expect(queue.next() == nil)
        #expect(queue.isIdle)
    }

    @Test func soManyWaitAndNoMore() {
        let queue = LargeQueue()
        let sink = CollectingSink()
        for token in 0..<300 as Range<UInt64> { queue.add(.test(token, sink: sink), in: Self.namespace) }
        #expect(sink.outcomes.keys.sorted() == Array(256..<300))
        #expect(sink.outcomes.values.allSatisfy { $0.failure == .overloaded })
        _ = queue.next()
        queue.add(.test(300, sink: sink), in: Self.namespace)
        #expect(sink.outcomes[300] == nil, "there is room for one more")
    }

    @Test func afterTheEndNoneIsTakenIn() {
        let queue = LargeQueue()
        let sink = CollectingSink()
        queue.add(.test(1, sink: sink), in: Self.namespace)
        queue.stop()
        queue.add(.test(2, sink: sink), in: Self.namespace)
        #expect(sink.outcomes[2]?.failure == .stopping && sink.outcomes[1] == nil)
        #expect(queue.next() == nil)
        #expect(queue.takeAll().map(\.item.token) == [1])
        #expect(queue.takeAll().isEmpty && queue.isIdle)
    }

    /// The large writer sleeps until there is a job, and wakes for the end.
    @Test func theWriterWaits() {
        let queue = LargeQueue()
        let seen = MutexBox<[UInt64]>([])
        let writer = Thread(name: "writer") {
            while let job = queue.next() { seen.withLock { $0.append(job.item.token) } }
        }
        for token in 0..<20 as Range<UInt64> { queue.add(.test(token), in: Self.namespace) }
        #expect(eventually { seen.withLock { $0.count } == 20 && queue.isIdle })
        queue.stop()
        writer.join()
        #expect(seen.withLock { $0 } == Array(0..<20))
    }
}
