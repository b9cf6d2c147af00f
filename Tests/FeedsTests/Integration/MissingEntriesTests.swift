import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of pruning, and of feeds whose entries are missing.
@Suite struct MissingEntriesTests {
    private static let definition = #"{"path": "/a/{k}", "start": "beginning"}"#

    private func prune(_ bench: FeedBench, keeping count: Int64, force: Bool = false) throws -> Pruning.Plan {
        let record = try #require(try bench.log.namespace(named: "test"))
        let pruning = Pruning(bench.log, record)
        let plan = try pruning.plan(.entries(count), force: force)
        try pruning.run(plan)
        return plan
    }

    /// Checks that repeated pruning keeps the entries that a slow consumer has not acknowledged.
    @Test func neverPastAFeedsPosition() throws {
        try FeedBench.with { bench in
            for feed in ["slow", "fast"] { try bench.apply(feed, Self.definition) }
            let slow = bench.consumer("slow")
            slow.most = 3
            let fast = bench.consumer("fast")
            try bench.serving({ $0.windowMessages = 4 }) { service in
                for round in 1...6 as ClosedRange<Int64> {
                    for number in 1...10 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(round)) }
                    try bench.drain(fast, service)
                    #expect(slow.consume([service]) { slow.done.count >= round * 5 })
                    let plan = try prune(bench, keeping: 0)
                    #expect(plan.holders.map(\.name) == ["slow"])
                    let seq = try bench.status("slow").seq
                    #expect(plan.newFrom <= seq + 1)
                    #expect(plan.newFrom > (round - 1) * 5)
                }
            }
            // Another gateway, which starts with the remaining messages.
            try bench.serving { service in try bench.drain(slow, service) }
            #expect(slow.ids == (1...60).map { "test:\($0):0" } && slow.repeated.isEmpty)
            #expect(fast.ids == slow.ids)
            _ = try prune(bench, keeping: 0)
            let kept = try bench.log.namespace(named: "test")?.retainedFrom
            #expect(kept == 61)
            // The feed continues even if no entry is left.
            try bench.serving { service in
                try bench.set("/a/k1", .int(0))
                try bench.drain(slow, service)
                #expect(slow.ids.last == "test:61:0")
            }
        }
    }

    /// Checks that pruning keeps a snapshot's tree until the snapshot's last message is done.
    @Test func neverPastASnapshot() throws {
        try FeedBench.with { bench in
            for number in 1...6 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            try bench.apply("f", #"{"path": "/a/{k}", "start": "snapshot", "include": ["value", "old"]}"#)
            let consumer = bench.consumer("f")
            consumer.most = 1
            try bench.set("/a/k1", .int(-1))
            for round in 1...6 {
                try bench.serving({ $0.windowMessages = 1 }) { service in
                    #expect(consumer.consume([service]) { consumer.done.count == round })
                }
                _ = try prune(bench, keeping: 0)
            }
            try bench.serving { service in try bench.drain(consumer, service) }
            #expect(consumer.ids == (0..<6).map { "test:6:s\($0)" } + ["test:7:0"] && consumer.repeated.isEmpty)
        }
    }

    /// Checks a feed whose entries were deleted directly in the database.
    @Test func aFeedWhoseEntriesAreGone() throws {
        try FeedBench.with { bench in
            for feed in ["behind", "ahead"] { try bench.apply(feed, Self.definition) }
            for number in 1...8 as ClosedRange<Int64> {
                try bench.set("/a/k\(number)", .int(number))
                // The snapshot that pruning leaves.
                if number == 4 { _ = try bench.log.takeSnapshot(bench.namespaceID(), for: .prune) }
            }
            _ = try bench.administration.seek(bench.name("ahead"), to: .seq(5))
            try bench.log.sql.executeScript(
                "delete from pathmirror.log where seq < 5; update pathmirror.namespace set retained_from = 5")
            try bench.serving { service in
                let ahead = bench.consumer("ahead")
                try bench.drain(ahead, service)
                #expect(ahead.ids == (6...8).map { "test:\($0):0" })
                let after = bench.consumer("behind")
                // In a single query: the feed is retried repeatedly, and reports no error during a try.
                #expect(
                    try eventually {
                        let status = try bench.status("behind")
                        return status.state == "broken" && status.message?.isEmpty == false
                    })
                #expect(after.receive(service).isEmpty)
                try bench.set("/a/k9", .int(9))
                try bench.drain(ahead, service)
                #expect(try eventually { try bench.status("ahead").state == "running" })
                #expect(ahead.ids.last == "test:9:0")
                // After a seek the feed continues.
                let change = try bench.administration.seek(bench.name("behind"), to: .snapshot).change
                service.moved(bench.name("behind"), change)
                try bench.drain(after, service)
                #expect(after.ids == (0..<9).map { "test:9:s\($0)" })
                #expect(try eventually { try bench.status("behind").state == "running" })
                #expect(try bench.status("behind").message == nil)
            }
        }
    }

    /// Checks entries that are deleted while the gateway reads.
    @Test func entriesThatGoUnderAReader() throws {
        try FeedBench.with { bench in
            for feed in ["behind", "ahead"] { try bench.apply(feed, Self.definition) }
            try bench.serving({
                $0.windowMessages = 2
                $0.pageEntries = 1
            }) { service in
                for number in 1...20 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
                let ahead = bench.consumer("ahead")
                try bench.drain(ahead, service)
                let after = bench.consumer("behind")
                after.most = 1
                #expect(after.consume([service]) { after.done.count == 2 })
                try bench.log.sql.executeScript(
                    "delete from pathmirror.log where seq < 15; update pathmirror.namespace set retained_from = 15")
                #expect(try after.consume([service]) { try bench.status("behind").state == "broken" })
                try bench.set("/a/k21", .int(21))
                try bench.drain(ahead, service)
                #expect(ahead.ids == (1...21).map { "test:\($0):0" })
                // No message after the gap was delivered as if there were no gap.
                #expect(after.ids == (1...after.ids.count).map { "test:\($0):0" } && after.ids.count < 15)
            }
        }
    }
}
