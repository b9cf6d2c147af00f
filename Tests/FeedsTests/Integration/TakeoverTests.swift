import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that one of several gateways on a database runs a feed at a time, and that acknowledged messages remain
/// acknowledged.
@Suite struct TakeoverTests {
    private static let feed = #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "100ms", "max_attempts": 100}"#

    private func ids(_ seqs: ClosedRange<Int64>) -> [String] { seqs.map { "test:\($0):0" } }

    /// Returns the indices of the gateways that run a feed according to their own state.
    private func owners(_ services: [FeedService]) -> [Int] {
        services.indices.filter { !services[$0].reports.isEmpty }
    }

    @Test func whenOneStopsTheOtherContinues() throws {
        try FeedBench.with { bench in
            let services = [try bench.service(), try bench.service()]
            defer { for service in services { service.stop() } }
            for number in 1...30 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            try bench.apply("f", Self.feed)
            #expect(eventually { owners(services).count == 1 })
            let first = try #require(owners(services).first)
            let consumer = bench.consumer("f")
            consumer.most = 20
            var held: [FeedDelivery] = []
            #expect(
                eventually {
                    held += consumer.receive(services[first])
                    return held.count >= 20
                })
            consumer.acknowledge(services[first], Array(held.prefix(10)))
            #expect(consumer.ids == ids(1...10))
            services[first].stop()
            let second = services[1 - first]
            try bench.drain(consumer, second)
            #expect(consumer.repeated.isEmpty)
            #expect(Set(consumer.ids) == Set(ids(1...30)) && consumer.ids.count == 30)
            try bench.set("/a/k31", .int(31))
            try bench.drain(consumer, second)
            #expect(consumer.done.last?.id == "test:31:0")
        }
    }

    /// Checks that a consumer can still acknowledge its messages after a change of the gateway. Until then neither
    /// these nor later messages of their keys are delivered.
    @Test func whatIsOutIsNotOvertaken() throws {
        try FeedBench.with { bench in
            let services = [try bench.service(), try bench.service()]
            defer { for service in services { service.stop() } }
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "10m"}"#)
            try bench.set("/a/k1", .int(1))
            #expect(eventually { owners(services).count == 1 })
            let first = try #require(owners(services).first)
            let second = services[1 - first]
            let holder = bench.consumer("f", "holder")
            var held: [FeedDelivery] = []
            #expect(
                eventually {
                    held = holder.receive(services[first])
                    return !held.isEmpty
                })
            services[first].stop()
            #expect(eventually { !second.reports.isEmpty })
            try bench.set("/a/k1", .int(2))
            try bench.set("/a/k2", .int(3))
            let other = bench.consumer("f", "other")
            #expect(other.consume([second]) { !other.ids.isEmpty })
            #expect(other.ids == ["test:3:0"])
            holder.acknowledge(second, held)
            #expect(holder.ids == ["test:1:0"])
            try bench.drain(other, second)
            #expect(other.ids == ["test:3:0", "test:2:0"])
        }
    }

    /// Checks that a live gateway that others consider dead accepts no more settlements.
    @Test func aWorkerTakenForDeadDoesNothing() throws {
        try FeedBench.with { bench in
            let services = [try bench.service(), try bench.service()]
            defer { for service in services { service.stop() } }
            try bench.apply("f", Self.feed)
            let consumer = bench.consumer("f")
            var number: Int64 = 0
            for _ in 0..<5 {
                for _ in 0..<10 {
                    number += 1
                    try bench.set("/a/k\(number)", .int(number))
                }
                try bench.drain(consumer, services[0], services[1])
                for heartbeat in try bench.log.feedHeartbeats(otherThan: Batch.makeID()) {
                    _ = try bench.log.endFeedWorker(heartbeat)
                }
            }
            number += 1
            try bench.set("/a/k\(number)", .int(number))
            try bench.drain(consumer, services[0], services[1])
            #expect(consumer.repeated.isEmpty)
            // A gateway considered dead just after recording an acknowledgement may not have confirmed it.
            #expect(consumer.sent == Set(ids(1...number)))
        }
    }

    /// Checks that a gateway without the database stops delivering long before another gateway takes its feeds over.
    @Test func aWorkerWithoutDatabaseDeliversNothing() throws {
        try FeedBench.with { bench in
            let proxy = try CuttingProxy(bench.url)
            defer { proxy.stop() }
            let lonely = try bench.service(proxy.url)
            defer { lonely.stop() }
            for number in 1...20 as ClosedRange<Int64> { try bench.set("/a/k\(number)", .int(number)) }
            try bench.apply("f", Self.feed)
            let consumer = bench.consumer("f")
            consumer.most = 5
            var held: [FeedDelivery] = []
            #expect(
                eventually {
                    held = consumer.receive(lonely)
                    return !held.isEmpty
                })
            consumer.acknowledge(lonely, held)
            proxy.setDown(true)
            defer { proxy.setDown(false) }
            let other = try bench.service()
            defer { other.stop() }
            #expect(eventually { if case .success(let list) = consumer.pull(other) { !list.isEmpty } else { false } })
            // The other gateway now runs the feed, so this one delivers nothing.
            if case .success(let deliveries) = consumer.pull(lonely) { #expect(deliveries.isEmpty) }
            #expect(consumer.settle(lonely, ["test:20:0"], .acknowledge) != ["done"])
            try bench.drain(consumer, other)
            #expect(consumer.repeated.isEmpty)
            #expect(Set(consumer.ids) == Set(ids(1...20)))
            proxy.setDown(false)
            try bench.set("/a/k21", .int(21))
            try bench.drain(consumer, lonely, other)
            #expect(consumer.repeated.isEmpty && consumer.done.last?.id == "test:21:0")
        }
    }

    /// Checks the order within each key while two gateways start and stop and two consumers share the feed.
    @Test func theOrderOfEachKeyHolds() throws {
        try FeedBench.with { bench in
            try bench.apply("f", Self.feed)
            var services = [try bench.service(), try bench.service()]
            defer { for service in services { service.stop() } }
            let consumers = [bench.consumer("f", "one"), bench.consumer("f", "two")]
            for consumer in consumers { consumer.most = 7 }
            var order: [String: [Int64]] = [:]
            for round in 0..<8 {
                for number in 0..<20 { try bench.set("/a/k\(number % 4)", .int(Int64(round * 20 + number))) }
                for step in 0..<10 {
                    let (consumer, service) = (consumers[step % 2], services[(step / 2) % 2])
                    let deliveries = consumer.receive(service)
                    for delivery in deliveries {
                        let isDone = consumers.contains { $0.ids.contains(delivery.id) }
                        #expect(!isDone, "\(delivery.id)")
                    }
                    consumer.acknowledge(service, deliveries)
                    for delivery in deliveries where consumer.ids.contains(delivery.id) {
                        let seq = delivery.message.position.seq
                        #expect(seq > order[delivery.message.key]?.last ?? 0, "\(delivery.id)")
                        order[delivery.message.key, default: []].append(seq)
                    }
                }
                services[round % 2].stop()
                services[round % 2] = try bench.service()
            }
            try bench.drain(consumers[0], services[0], services[1])
            #expect(Set(consumers.flatMap(\.ids)) == Set(ids(1...160)))
            #expect(consumers.flatMap(\.ids).count == 160 && consumers.allSatisfy(\.repeated.isEmpty))
        }
    }
}
