import Engine
import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks a feed that starts with a snapshot during concurrent writes: its messages describe the actual sequence of
/// changes.
@Suite struct SnapshotStartTests {
    private static let keys = 60

    /// Writes to random keys until it is stopped.
    private final class Writer {
        private let isOver = MutexBox(false)
        private let thread: Thread

        init(_ bench: FeedBench, seed: UInt64) {
            let isOver = isOver
            let namespace = bench.namespace
            thread = Thread(name: "writer") {
                var random = SeededGenerator(seed: seed)
                var number: Int64 = 0
                while !isOver.withLock({ $0 }) {
                    number += 1
                    let key = "/a/k\(random.below(SnapshotStartTests.keys))"
                    _ = namespace.write(.set(key, random.oneIn(4) ? .null : .int(number)))
                }
            }
        }

        func stop() {
            isOver.withLock { $0 = true }
            thread.join()
        }
    }

    private func change(_ delivery: FeedDelivery) throws -> FeedMessage.Change {
        guard case .change(let change) = delivery.message.content else {
            throw FeedRefusalError(.unknownFeed)
        }
        return change
    }

    /// Checks that each record of the snapshot is delivered once, followed by each change once, starting from the
    /// previous message's value.
    private func check(_ consumer: BenchConsumer, _ bench: FeedBench) throws {
        let inOrder = consumer.done.sorted { $0.message.position < $1.message.position }
        var values: [String: Node] = [:]
        var snapshotSeq: Int64?
        var next: Int64 = 0
        for delivery in inOrder {
            let change = try change(delivery)
            let position = delivery.message.position
            let what = Comment(rawValue: delivery.id)
            if position.isSnapshot {
                #expect(change.operation == "snapshot" && change.event == .created, what)
                #expect(position.seq == snapshotSeq ?? position.seq && position.index == next, what)
                snapshotSeq = position.seq
                next += 1
            } else {
                #expect(position.seq > snapshotSeq ?? 0, what)
            }
            #expect(change.old == values[delivery.message.key] ?? .null, what)
            values[delivery.message.key] = change.value
        }
        #expect(Set(inOrder.map(\.id)).count == inOrder.count && consumer.repeated.isEmpty)
        let root = bench.namespace.snapshot.root.child(Key("a"))
        for number in 0..<Self.keys {
            let key = "k\(number)"
            #expect(values[key] ?? .null == root.child(Key(key)), "\(consumer.feed) \(key)")
        }
        // Each key's messages are also in order of delivery.
        for (_, messages) in Dictionary(grouping: consumer.done, by: \.message.key) {
            let positions = messages.map(\.message.position)
            #expect(positions == positions.sorted())
        }
    }

    @Test func joinedToTheChanges() throws {
        try FeedBench.with { bench in
            for number in 0..<Self.keys where number % 2 == 0 { try bench.set("/a/k\(number)", .int(-1)) }
            try bench.serving { service in
                let writer = Writer(bench, seed: 1)
                var consumers: [BenchConsumer] = []
                defer { writer.stop() }
                for number in 0..<5 {
                    let definition = #"{"path": "/a/{k}", "start": "snapshot", "include": ["value", "old"]}"#
                    try bench.apply("f\(number)", definition)
                    let consumer = bench.consumer("f\(number)")
                    consumers.append(consumer)
                    #expect(consumer.consume([service]) { consumer.done.count > 60 })
                }
                writer.stop()
                for consumer in consumers {
                    try bench.drain(consumer, service)
                    try check(consumer, bench)
                }
            }
        }
    }

    /// Checks a change of the gateway in the middle of the snapshot.
    @Test func takenOverInTheMiddle() throws {
        try FeedBench.with { bench in
            for number in 0..<Self.keys { try bench.set("/a/k\(number)", .int(-1)) }
            let definition =
                #"{"path": "/a/{k}", "start": "snapshot", "include": ["value", "old"], "ack_deadline": "100ms"}"#
            try bench.apply("f", definition)
            let consumer = bench.consumer("f")
            consumer.most = 7
            var number: Int64 = 0
            for round in 1...6 {
                try bench.serving({ $0.windowMessages = 10 }) { service in
                    #expect(consumer.consume([service]) { consumer.done.count >= round * 10 })
                    // Some messages are outstanding when the gateway stops.
                    _ = consumer.receive(service)
                }
                for _ in 0..<5 {
                    number += 1
                    try bench.set("/a/k\(number * 7 % Int64(Self.keys))", number % 3 == 0 ? .null : .int(number))
                }
            }
            try bench.serving { service in
                try bench.drain(consumer, service)
                try check(consumer, bench)
                #expect(consumer.done.filter(\.message.position.isSnapshot).count == Self.keys)
                #expect(consumer.done.count == Self.keys + Int(number))
            }
        }
    }

    /// Checks that a seek to a snapshot delivers all records again, with the snapshot's ids.
    @Test func soughtOnceMore() throws {
        try FeedBench.with { bench in
            for number in 0..<5 { try bench.set("/a/k\(number)", .int(Int64(number))) }
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "include": ["value", "old"]}"#)
            try bench.serving { service in
                try bench.drain(bench.consumer("f"), service)
                let (seq, change) = try bench.administration.seek(bench.name("f"), to: .snapshot)
                service.moved(bench.name("f"), change)
                #expect(seq == 4)
                try bench.set("/a/k0", .null)
                let consumer = bench.consumer("f")
                try bench.drain(consumer, service)
                #expect(consumer.ids == (0..<5).map { "test:5:s\($0)" } + ["test:6:0"])
                try check(consumer, bench)
            }
        }
    }

    @Test func anEmptyDatabase() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path": "/a/{k}", "start": "snapshot", "include": ["value", "old"]}"#)
            try bench.serving { service in
                try bench.set("/a/k1", .int(1))
                let consumer = bench.consumer("f")
                try bench.drain(consumer, service)
                #expect(consumer.ids == ["test:1:0"])
                try check(consumer, bench)
            }
        }
    }
}
