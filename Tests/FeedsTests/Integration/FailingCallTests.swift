import Engine
import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks gateways that run feeds while each database call in turn loses its connection, before or after the call.
@Suite struct FailingFeedCallTests {
    /// Runs two feeds on a gateway. Their consumer acknowledges one message and rejects another.
    /// Then the gateway is killed, and another takes over.
    private static func twoGateways(_ calls: FailingCalls) throws -> [String] {
        var problems: [String] = []
        try FeedBench.with { bench in
            let lines = LoggedLines()
            for number in 1...6 as ClosedRange<Int64> { try bench.set("/a/k\(number % 3)", .int(number)) }
            try bench.apply(
                "f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "700ms", "max_attempts": 50}"#)
            try bench.apply(
                "s", #"{"path": "/a/{k}", "start": "snapshot", "ack_deadline": "700ms", "max_attempts": 50}"#)
            let consumer = bench.consumer("f")
            let others = bench.consumer("s")
            let killed = try bench.service(faults: calls, logger: lines.logger) { $0.readers = 1 }
            var isStopped = false
            defer { if !isStopped { killed.stop() } }
            var seen: [String: FeedDelivery] = [:]
            let isThere = eventually(seconds: 20) {
                for delivery in consumer.receive(killed) { seen[delivery.id] = delivery }
                return seen.count == 6
            }
            if !isThere { problems.append("only \(seen.keys.sorted()) were handed out") }
            // The first message of its key, so that it can be done before others.
            let second = FeedPosition(seq: 2, index: 0)
            let isDone = try eventually(seconds: 20) {
                for delivery in consumer.receive(killed) { seen[delivery.id] = delivery }
                if let delivery = seen["test:2:0"] { consumer.acknowledge(killed, [delivery]) }
                return try consumer.ids == ["test:2:0"] || bench.progress("f").isDone(second)
            }
            if !isDone { problems.append("a message could not be acknowledged") }
            _ = consumer.settle(killed, ["test:3:0"], .reject(delayMilliseconds: 0, reason: "not now"))
            calls.cut(true)
            killed.stop()
            isStopped = true
            calls.cut(false)
            let progress = try bench.progress("f")
            for seq in [1, 3, 4, 5, 6] as [Int64] where progress.isDone(FeedPosition(seq: seq, index: 0)) {
                problems.append("\(seq) was recorded as done, and nobody had acknowledged it")
            }
            if !progress.isDone(second) { problems.append("an acknowledgement was lost") }
            try bench.set("/a/k0", .int(7))
            let next = try bench.service(faults: calls, logger: lines.logger) { $0.readers = 1 }
            defer { next.stop() }
            for one in [consumer, others] {
                let isAtEnd = try one.consume([next]) {
                    let status = try bench.status(one.feed.name)
                    return status.seq >= status.head
                }
                if !isAtEnd {
                    problems.append("\(one.feed) did not come to its end: \(try bench.status(one.feed.name))")
                }
                if !one.repeated.isEmpty { problems.append("\(one.repeated) came again after they were done") }
                for (key, messages) in Dictionary(grouping: one.done, by: \.message.key) {
                    let positions = messages.map(\.message.position)
                    if positions != positions.sorted() { problems.append("\(key) out of order: \(positions)") }
                }
            }
            let wanted = (1...7).map { "test:\($0):0" }
            // An acknowledgement may have succeeded although its answer was lost.
            if consumer.sent != Set(wanted) { problems.append("sent \(consumer.sent.sorted()) of \(wanted)") }
            let records = (0..<3).map { "test:6:s\($0)" } + ["test:7:0"]
            if others.sent != Set(records) { problems.append("sent \(others.sent.sorted()) of \(records)") }
            let states = try ["f", "s"].map { try bench.status($0).state }
            if states.contains("broken") { problems.append("the feeds are \(states)") }
            problems += lines.lines(with: "feed is broken")
        }
        return problems
    }

    @Test func everyCallOfTwoGateways() {
        let outcome = FailingCalls.run(sample: 60, of: { $0.hasPrefix("pathmirror feed") }, Self.twoGateways)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 60 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
