import LogStore
import Runtime
import Testing

@testable import Feeds

/// Tests of how the dispatcher handles many waiting requests.
@Suite struct FeedDispatcherStateTests {
    private let orders = FeedName(namespace: "a", name: "orders")
    private let mails = FeedName(namespace: "a", name: "mails")
    private let other = FeedName(namespace: "b", name: "other")

    private func with(waits: Int = 20_000, _ body: (DispatcherStateBench) throws -> Void) throws {
        let bench = try DispatcherStateBench { $0.maxWaitingPulls = waits }
        defer { bench.close() }
        try body(bench)
    }

    @Test func aPullThatWaitsIsServed() throws {
        try with { bench in
            try bench.begin(orders)
            let (id, pull) = bench.pull(orders)
            bench.handle(pull)
            #expect(bench.answers[id] == nil)
            bench.push(1, to: orders)
            #expect(bench.answers[id] == "a:1:0")
        }
    }

    /// Checks that a feed and a namespace leave slots for others, and that requests beyond the limit are answered.
    @Test func seatsAreShared() throws {
        try with(waits: 100) { bench in
            for name in [orders, mails, other] { try bench.begin(name) }
            func fill(_ name: FeedName) -> Int {
                for count in 0..<200 {
                    let (id, pull) = bench.pull(name)
                    bench.handle(pull)
                    if bench.answers[id] == "tooManyWaiting" { return count }
                }
                return 200
            }
            #expect(fill(orders) == 25)
            let second = fill(mails)
            #expect(second > 0 && second < 25)
            #expect(fill(other) >= 15)
            let (id, pull) = bench.pull(orders, wait: 0)
            bench.handle(pull)
            #expect(bench.answers[id] == "")
        }
    }

    /// Checks that a consumer that cancels and repeats its pulls thousands of times holds no more than its present
    /// slots.
    @Test func cancellingGivesTheSeatBack() throws {
        try with(waits: 40) { bench in
            try bench.begin(orders)
            for _ in 0..<1_000 {
                let pulls = (0..<10).map { _ in bench.pull(orders) }
                for (_, pull) in pulls { bench.handle(pull) }
                for (id, _) in pulls { bench.handle(.cancel(orders, pull: id)) }
            }
            #expect(bench.answers.count == 0)
            let (id, pull) = bench.pull(orders)
            bench.handle(pull)
            bench.push(1, to: orders)
            #expect(bench.answers[id] == "a:1:0")
        }
    }

    @Test func servingAndExpiringGiveTheSeatBack() throws {
        try with(waits: 40) { bench in
            try bench.begin(orders)
            for _ in 0..<100 {
                let (served, first) = bench.pull(orders)
                bench.handle(first)
                bench.push(1, to: orders)
                #expect(bench.answers[served]?.isEmpty == false)
                let (late, second) = bench.pull(orders, wait: 1)
                bench.handle(second)
                while bench.answers[late] == nil { bench.handle() }
                #expect(bench.answers[late] == "")
            }
        }
    }

    /// Checks that thousands of pulls of a consumer at its limit do not delay others, and are served when the consumer
    /// acknowledges.
    @Test func aFullConsumerIsNotInTheWay() throws {
        try with { bench in
            try bench.begin(orders)
            let full = (0..<3_000).map { _ in bench.pull(orders, "full", mostHeld: 1) }
            for (_, pull) in full { bench.handle(pull) }
            bench.push(1, to: orders)
            #expect(bench.answers[full[0].id] == "a:1:0")
            let (id, pull) = bench.pull(orders, "other")
            bench.handle(pull)
            bench.push(1, to: orders)
            #expect(bench.answers[id] == "a:2:0" && bench.answers.count == 2)
            bench.push(1, to: orders)
            #expect(bench.answers.count == 2)
            bench.handle(
                .settle(orders, [FeedPosition(seq: 1, index: 0)], consumer: "full", .acknowledge, .any) { _ in })
            #expect(bench.answers[full[1].id] == "a:3:0" && bench.answers.count == 3)
        }
    }

    // MARK: Feeds without an owner

    @Test func requestsWaitForAnOwner() throws {
        try with { bench in
            let (id, pull) = bench.pull(orders)
            let (gone, cancelled) = bench.pull(orders)
            bench.handle(pull, cancelled)
            bench.handle(.cancel(orders, pull: gone))
            #expect(bench.answers.count == 0)
            try bench.begin(orders)
            bench.push(1, to: orders)
            #expect(bench.answers[id] == "a:1:0" && bench.answers[gone] == nil)
        }
    }

    @Test func requestsForUnknownFeedsAreRefused() throws {
        try with { bench in
            let (id, pull) = bench.pull(orders)
            bench.handle(pull)
            bench.handle(.routes([:]))
            #expect(bench.answers[id] == nil)
            bench.handle(.routes([:]))
            #expect(bench.answers[id] == "unknownFeed")
            let (elsewhere, second) = bench.pull(mails)
            bench.handle(second)
            bench.handle(.routes([mails: .elsewhere(FeedPeer(address: "http://there", key: Secret([1])))]))
            #expect(bench.answers[elsewhere]?.contains("http://there") == true)
        }
    }

    @Test func pullsGoOverToTheNextGeneration() throws {
        try with(waits: 40) { bench in
            try bench.begin(orders)
            let pulls = (0..<10).map { _ in bench.pull(orders) }
            for (_, pull) in pulls { bench.handle(pull) }
            bench.end(orders)
            #expect(bench.answers.count == 0)
            try bench.begin(orders, generation: 2)
            bench.push(10, to: orders, generation: 2)
            #expect(pulls.allSatisfy { bench.answers[$0.id]?.hasPrefix("a:") == true })
        }
    }

    // MARK: Deadlines

    /// Checks that a message's deadline starts when the message is delivered, however long the dispatcher was busy
    /// before.
    @Test func aDeadlineBeginsWhenAMessageIsHandedOut() throws {
        try with { bench in
            try bench.begin(orders)
            bench.push(1, to: orders)
            let (id, pull) = bench.pull(orders)
            let busy = FeedCommand.report(mails, .any) { [ahead = bench.ahead] _, _ in
                ahead.withLock { $0 += 29_000 }
            }
            bench.handle(pull, busy)
            #expect(bench.answers[id] == "a:1:0")
            bench.ahead.withLock { $0 += 2_000 }
            bench.handle()
            #expect(bench.report(orders)?.held == 1)
            bench.ahead.withLock { $0 += 30_000 }
            bench.handle()
            #expect(bench.report(orders)?.held == 0)
        }
    }

    // MARK: Changes of the definition

    /// A sink that records its deliveries.
    private final class Recording: Sink {
        let batchSize = 1
        let concurrency = 4
        let timeoutMilliseconds: Milliseconds = 60_000
        private let sent = MutexBox<[String]>([])
        var ids: [String] { sent.withLock { $0 } }

        func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
            sent.withLock { $0 += messages.map(\.id) }
        }

        func stop() {}
    }

    private static let changed = #"{"path":"/x/{key}","max_attempts":3}"#
    private let first = FeedPosition(seq: 1, index: 0)
    private let second = FeedPosition(seq: 2, index: 0)

    /// Checks that a dead message that could not be recorded is delivered again, and that no later message of its key
    /// was delivered meanwhile.
    @Test func aLostDeathIsNotOvertaken() throws {
        try with { bench in
            let sink = Recording()
            try bench.begin(orders, sink: sink)
            bench.push(2, to: orders, key: "k")
            bench.handle(.delivered(bench.claim(orders), [first], [.refused(reason: "no")]))
            #expect(sink.ids == ["a:1:0"])
            bench.end(orders)
            let next = Recording()
            try bench.begin(orders, generation: 3, Self.changed, handedTo: 2, sink: next)
            bench.push(2, to: orders, key: "k", after: 0, generation: 3)
            #expect(next.ids == ["a:1:0"])
            bench.handle(.delivered(bench.claim(orders, generation: 3), [first], [.delivered]))
            #expect(next.ids == ["a:1:0", "a:2:0"])
        }
    }

    /// Checks that an acknowledgement that could not be recorded has the same effect.
    @Test func aLostAcknowledgementIsNotOvertaken() throws {
        try with { bench in
            try bench.begin(orders)
            bench.push(2, to: orders, key: "k")
            let words = MutexBox<[String]>([])
            func acknowledge(_ position: FeedPosition, _ consumer: String) {
                bench.handle(
                    .settle(orders, [position], consumer: consumer, .acknowledge, .any) { result in
                        words.withLock { $0 += (try? result.get()) ?? [] }
                    })
            }
            let (one, pullOne) = bench.pull(orders, "one")
            let (two, pullTwo) = bench.pull(orders, "two")
            bench.handle(pullOne, pullTwo)
            acknowledge(first, "one")
            #expect(bench.answers[one] == "a:1:0" && bench.answers[two] == "a:2:0")
            bench.end(orders)
            try bench.begin(orders, generation: 3, Self.changed, handedTo: 2)
            bench.push(2, to: orders, key: "k", after: 0, generation: 3)
            let (three, pullThree) = bench.pull(orders, "three", most: 2)
            bench.handle(pullThree)
            #expect(bench.answers[three] == nil)
            acknowledge(second, "two")
            #expect(words.withLock { $0 } == ["expired", "expired"])
            #expect(bench.answers[three] == "a:1:0 a:2:0")
        }
    }

    // MARK: Figures

    @Test func aReportNamesSomeConsumersAndCountsAll() throws {
        try with { bench in
            try bench.begin(orders)
            bench.push(300, to: orders)
            for number in 0..<300 {
                let (_, pull) = bench.pull(orders, "c\(number)")
                bench.handle(pull)
            }
            let report = try #require(bench.report(orders))
            #expect(report.consumers.count == 100 && Set(report.consumers).count == 100)
            #expect(report.consumerCount == 300 && report.held == 300 && report.pending == 300)
            #expect(report.oldestID == "a:1:0")
        }
    }

    // MARK: Memory

    /// Checks that memory is charged for a message until it is done or the feed no longer runs here.
    @Test func messagesAreCharged() throws {
        try with { bench in
            try bench.begin(orders)
            bench.push(10, to: orders)
            let ten = bench.core.memory.usedBytes
            #expect(ten > 0)
            let (_, pull) = bench.pull(orders, most: 5)
            bench.handle(pull)
            let positions = (1...5).map { FeedPosition(seq: $0, index: 0) }
            bench.handle(.settle(orders, positions, consumer: "c", .acknowledge, .any) { _ in })
            #expect(bench.core.memory.usedBytes == ten / 2)
            bench.end(orders)
            #expect(bench.core.memory.usedBytes == 0)
        }
    }

    // MARK: Sinks

    /// A sink without a client.
    private final class NoClient: Sink {
        let batchSize = 10
        let concurrency = 4
        let timeoutMilliseconds: Milliseconds = 1_000
        let deliveries = MutexBox(0)

        func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
            deliveries.withLock { $0 += 1 }
        }

        func stop() {}
    }

    /// Checks that waiting for a client uses up no attempt, and that the dispatcher does not busy-wait.
    @Test func whatIsNotSentWaitsAMoment() throws {
        try with { bench in
            let sink = NoClient()
            try bench.begin(orders, sink: sink)
            bench.push(1, to: orders)
            #expect(sink.deliveries.withLock { $0 } == 1)
            bench.handle(.delivered(bench.claim(orders), [FeedPosition(seq: 1, index: 0)], [.notSent]))
            bench.handle()
            #expect(sink.deliveries.withLock { $0 } == 1)
            let report = try #require(bench.report(orders))
            #expect(report.pending == 1 && report.held == 0 && report.state == "failing")
            #expect(report.message == "The feed's messages wait for a free slot or client of the gateway.")
            while sink.deliveries.withLock({ $0 }) == 1 { bench.handle() }
            #expect(bench.report(orders)?.held == 1)
        }
    }
}
