import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of more retried messages of one key than are read at once, where dead messages stop their keys.
@Suite struct ManyRetriesTests {
    private static let count = FeedRetryPage.failedMessagesAtOnce + 100
    private static let ids = (0..<count).map { "test:1:\($0)" }
    private static let definition =
        #"{"path": "/a/{k}", "start": "beginning", "order": "namespace", "on_dead": "stop", "max_attempts": 1}"#

    /// Runs `body` after the first message has died, the others were set aside after it, and all are to be retried.
    private func withRetries(_ body: (FeedBench, FeedService, BenchConsumer) throws -> Void) throws {
        try FeedBench.with { bench in
            try write(bench)
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                try rejectFirst(consumer, bench, service)
                #expect(try bench.administration.retry(bench.name("f"), .all) == 1)
                try body(bench, service, consumer)
            }
        }
    }

    private func write(_ bench: FeedBench) throws {
        let records = (0..<Self.count).map { (Key("k\(10_000 + $0)"), Node.int(Int64($0))) }
        try bench.set("/a", Node(children: records))
    }

    /// Lets the first message die, which sets all others aside.
    private func rejectFirst(_ consumer: BenchConsumer, _ bench: FeedBench, _ service: FeedService) throws {
        var held: [FeedDelivery] = []
        #expect(
            eventually {
                held = consumer.receive(service)
                return held.first?.id == Self.ids.first
            })
        let first = try #require(held.first)
        #expect(consumer.settle(service, [first.id], .reject(delayMilliseconds: 0, reason: "no")) == ["done"])
        let isAside = try eventually {
            let status = try bench.status("f")
            return status.deadLetters == 1 && status.setAside == Self.count - 1 && status.retrying == 0
        }
        let status = try bench.status("f")
        #expect(isAside, "\(status)")
    }

    @Test func aNewMessageComesAfterThem() throws {
        try withRetries { bench, service, consumer in
            #expect(consumer.consume([service]) { !consumer.ids.isEmpty })
            try bench.set("/a/k10000", .int(-1))
            // The new message is in the gateway's memory before the second page is read.
            #expect(try eventually { try bench.progress("f").readTo.seq == 2 })
            #expect(consumer.ids.count < FeedRetryPage.failedMessagesAtOnce / 2)
            #expect(consumer.consume([service]) { consumer.ids.count > Self.count })
            #expect(consumer.ids == Self.ids + ["test:2:0"] && consumer.repeated.isEmpty)
        }
    }

    @Test func theFirstDiesAgain() throws {
        try withRetries { bench, service, consumer in
            try rejectFirst(consumer, bench, service)
            #expect(consumer.receive(service).isEmpty)
            #expect(try bench.administration.retry(bench.name("f"), .all) == 1)
            #expect(consumer.consume([service]) { consumer.ids.count == Self.count })
            #expect(consumer.ids == Self.ids && consumer.repeated.isEmpty)
        }
    }

    /// Checks a change of the gateway between the death of a message and its consequences.
    @Test func theFirstDiesAgainBeforeATakeover() throws {
        try FeedBench.with { bench in
            try write(bench)
            try bench.apply("f", Self.definition)
            let consumer = bench.consumer("f")
            try bench.serving { try rejectFirst(consumer, bench, $0) }
            // The state of the database if a gateway ends before it has set unread messages aside.
            try bench.log.sql.executeScript(
                "update pathmirror.feed_message set state = 'retry' where state = 'blocked'")
            try bench.serving { service in
                let isAside = try eventually {
                    let status = try bench.status("f")
                    return status.state == "running" && status.setAside == Self.count - 1
                }
                #expect(isAside)
                #expect(consumer.receive(service).isEmpty)
                #expect(try bench.administration.drop(bench.name("f"), .all) == 1)
                #expect(consumer.consume([service]) { consumer.ids.count == Self.count - 1 })
                #expect(consumer.ids == Array(Self.ids.dropFirst()))
            }
        }
    }
}
