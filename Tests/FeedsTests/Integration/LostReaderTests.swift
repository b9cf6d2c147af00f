import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Makes one call on a kind of connection fail: the first call, once enabled, that begins with a text.
final class LosingCall: CallFaults {
    private let connection: String
    private let statement: String
    private let lost: CallFault
    private let state = MutexBox((isOn: false, count: 0))

    init(_ lost: CallFault, on connection: String, of statement: String, isOn: Bool = true) {
        self.lost = lost
        self.connection = connection
        self.statement = statement
        state.withLock { $0.isOn = isOn }
    }

    func begin() { state.withLock { $0.isOn = true } }

    /// The number of failures.
    var count: Int { state.withLock { $0.count } }

    func fault(on connection: String, of statement: String) -> CallFault {
        guard connection == self.connection, statement.hasPrefix(self.statement) else { return .none }
        return state.withLock { state in
            guard state.isOn else { return .none }
            state = (isOn: false, count: state.count + 1)
            return lost
        }
    }
}

/// Checks that a connection lost while a feed starts leaves no state: the state is set after all calls that can fail.
@Suite struct LostReaderTests {
    private static let definition = #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "10m"}"#

    /// Checks the loss of the reader's connection in the last statement of its start. Messages that the consumer holds
    /// and does not acknowledge are delivered again after the gateway has been killed.
    @Test(arguments: [[], [2]] as [[Int64]], [CallFault.before, .after])
    func whatIsOutIsNotDone(_ acknowledged: [Int64], _ fault: CallFault) throws {
        try FeedBench.with { bench in
            for number in 1...5 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            try bench.apply("f", Self.definition)
            let last = LosingCall(fault, on: "pathmirror feed reader", of: "select seq, (extract")
            let lines = LoggedLines()
            let killed = try bench.service(faults: last, logger: lines.logger) { $0.readers = 1 }
            let consumer = bench.consumer("f")
            var held: [FeedDelivery] = []
            #expect(
                eventually {
                    held += consumer.receive(killed)
                    return held.count == 5
                })
            #expect(last.count == 1, "the call was not made")
            // No message is delivered twice, because there is only one shared reader.
            #expect(consumer.receive(killed).isEmpty)
            let taken = held.filter { acknowledged.contains($0.message.position.seq) }
            consumer.acknowledge(killed, taken)
            #expect(consumer.ids == acknowledged.map { "test:\($0):0" })
            killed.stop()
            let progress = try bench.progress("f")
            for seq in 1...5 as ClosedRange<Int64> {
                let position = FeedPosition(seq: seq, index: 0)
                #expect(progress.isDone(position) == acknowledged.contains(seq), "\(seq)")
            }
            #expect(lines.lines(with: "feed is broken").isEmpty, "\(lines.text)")
            try bench.serving { service in
                // The consumer that held the messages is gone, so no deadline has to be awaited.
                for delivery in held where !acknowledged.contains(delivery.message.position.seq) {
                    let isBack = eventually(seconds: 20) {
                        consumer.settle(service, [delivery.id], .reject(delayMilliseconds: 0, reason: "")) == ["done"]
                    }
                    #expect(isBack, "\(delivery.id)")
                }
                try bench.drain(consumer, service)
            }
            #expect(Set(consumer.ids) == Set((1...5).map { "test:\($0):0" }) && consumer.repeated.isEmpty)
        }
    }

    /// Checks that the supervisor claims a feed again immediately if it loses its connection while it starts the feed.
    @Test(
        arguments: [
            "select definition", "select seq, index, is_snapshot", "update pathmirror.feed_message",
        ], [CallFault.before, .after])
    func aFeedThatWasNotBegunIsClaimedAgain(_ statement: String, _ fault: CallFault) throws {
        try FeedBench.with { bench in
            try bench.set("/a/k1", .int(1))
            try bench.apply("f", Self.definition)
            let lost = LosingCall(fault, on: "pathmirror feeds", of: statement)
            let lines = LoggedLines()
            let service = try bench.service(faults: lost, logger: lines.logger)
            defer { service.stop() }
            try bench.drain(bench.consumer("f"), service)
            #expect(lost.count == 1, "the call was not made")
            #expect(lines.lines(with: "a feed was not started").count == 1, "\(lines.text)")
        }
    }

    /// Checks that each feed whose entries are missing is dropped, although the connection is lost while this is
    /// reported.
    @Test(arguments: [CallFault.before, .after]) func noTroubleIsForgotten(_ fault: CallFault) throws {
        try FeedBench.with { bench in
            let names = ["f", "g", "h"]
            for name in names { try bench.apply(name, #"{"path": "/a/{k}", "start": "beginning"}"#) }
            for number in 1...8 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            let lost = LosingCall(fault, on: "pathmirror feeds", of: "update pathmirror.feed_owner", isOn: false)
            let service = try bench.service(faults: lost) {
                $0.windowMessages = 2
                $0.pageEntries = 1
                $0.readers = 1
            }
            defer { service.stop() }
            let consumers = names.map { bench.consumer($0) }
            var held: [[FeedDelivery]] = consumers.map { _ in [] }
            #expect(
                eventually {
                    for (index, consumer) in consumers.enumerated() where held[index].count < 2 {
                        held[index] += consumer.receive(service)
                    }
                    return held.allSatisfy { $0.count >= 2 }
                })
            try bench.log.sql.executeScript(
                "delete from pathmirror.log where seq < 7; update pathmirror.namespace set retained_from = 7")
            lost.begin()
            for (consumer, deliveries) in zip(consumers, held) { consumer.acknowledge(service, deliveries) }
            for name in names { #expect(try eventually { try bench.status(name).state == "broken" }, "\(name)") }
            #expect(lost.count == 1, "the call was not made")
        }
    }
}
