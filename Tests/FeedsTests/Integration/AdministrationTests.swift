import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of administrators' actions on feeds that are running.
@Suite struct AdministrationTests {
    private static let definition = #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "10s"}"#

    private func write(_ bench: FeedBench, _ seqs: ClosedRange<Int64>) throws {
        for seq in seqs { #expect(try bench.set("/a/k\(seq % 3)", .int(seq)) == seq) }
    }

    private func ids(_ seqs: ClosedRange<Int64>) -> [String] { seqs.map { "test:\($0):0" } }

    // MARK: Definitions

    @Test func theSameDefinitionChangesNothing() throws {
        try FeedBench.with { bench in
            try write(bench, 1...6)
            let made = try bench.apply("f", Self.definition)
            #expect(made.isNew && made.isChanged && made.seq == 0 && made.change == nil)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                consumer.most = 2
                #expect(consumer.consume([service]) { consumer.done.count == 2 })
                let held = consumer.receive(service)
                let before = try bench.administration.feed(bench.name("f"))
                // Includes an equal definition in another form.
                for same in [
                    Self.definition, #"{"ack_deadline":"10s","start":"beginning","path":"/a/{k}","order":"key"}"#,
                ] {
                    let again = try bench.apply("f", same)
                    #expect(!again.isNew && !again.isChanged && again.seq == 2 && again.change == nil)
                }
                #expect(try bench.administration.feed(bench.name("f")) == before)
                // Outstanding messages remain outstanding.
                consumer.acknowledge(service, held)
                #expect(consumer.ids == ids(1...4))
            }
        }
    }

    /// Checks that changed settings take effect without a loss of progress.
    @Test func anotherDefinition() throws {
        try FeedBench.with { bench in
            try write(bench, 1...6)
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                consumer.most = 3
                #expect(consumer.consume([service]) { consumer.done.count == 3 })
                let changed = #"{"path": "/a/{k}", "include": ["old"], "filter": "newData.val() != 5"}"#
                let applied = try bench.apply("f", changed)
                #expect(!applied.isNew && applied.isChanged && applied.seq == 3)
                service.moved(bench.name("f"), try #require(applied.change))
                try bench.drain(consumer, service)
                #expect(consumer.ids == ids(1...4) + ["test:6:0"] && consumer.repeated.isEmpty)
                let text = String(decoding: consumer.done.last?.json ?? [], as: UTF8.self)
                #expect(text.contains("\"old\":3") && !text.contains("\"value\":"))
            }
        }
    }

    /// Checks that a changed path gives messages of the new path from the same entry on.
    @Test func anotherPath() throws {
        try FeedBench.with { bench in
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                for number in 1...4 as ClosedRange<Int64> {
                    let both = [(Key("a"), Node(children: [(Key("x"), Node.int(number))])), (Key("b"), .int(number))]
                    try bench.set("/", Node(children: both))
                    if number == 2 { try bench.drain(consumer, service) }
                }
                _ = consumer.receive(service)
                let applied = try bench.apply("f", #"{"path": "/b", "ack_deadline": "100ms"}"#)
                #expect(applied.isChanged && applied.seq == 2)
                service.moved(bench.name("f"), try #require(applied.change))
                let other = bench.consumer("f")
                try bench.drain(other, service)
                #expect(other.ids == ids(3...4) && other.done.map(\.message.facts.path) == ["/b", "/b"])
            }
        }
    }

    @Test func removed() throws {
        try FeedBench.with { bench in
            try write(bench, 1...3)
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                #expect(eventually { !consumer.receive(service).isEmpty })
                let change = try bench.administration.remove(bench.name("f"))
                service.moved(bench.name("f"), change)
                #expect(
                    eventually {
                        guard case .failure(let refusal) = consumer.pull(service) else { return false }
                        return refusal.refusal == .unknownFeed
                    })
                #expect(throws: FeedError.unknownFeed(bench.name("f"))) { try bench.status("f") }
                #expect(throws: FeedError.unknownFeed(bench.name("f"))) {
                    try bench.administration.remove(bench.name("f"))
                }
                // A new feed of the same name starts from the beginning.
                try bench.apply("f", Self.definition)
                let other = bench.consumer("f")
                try bench.drain(other, service)
                #expect(other.ids == ids(1...3))
            }
        }
    }

    // MARK: Seeking

    @Test func seeking() throws {
        try FeedBench.with { bench in
            try write(bench, 1...8)
            try bench.log.sql.executeScript(
                "update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min'")
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                try bench.drain(bench.consumer("f"), service)
                let starts: [(FeedDefinition.Start, Int64)] = [
                    (.seq(5), 5), (.seq(0), 0), (.beginning, 0), (.time("2026-01-31T12:03:00Z"), 3),
                    (.time("2026-01-31T12:03:59Z"), 3), (.time("2026-01-31T11:00:00Z"), 0), (.seq(8), 8), (.now, 8),
                ]
                for (start, wanted) in starts {
                    let (seq, change) = try bench.administration.seek(bench.name("f"), to: start)
                    service.moved(bench.name("f"), change)
                    #expect(seq == wanted, "\(start)")
                    let consumer = bench.consumer("f")
                    try bench.drain(consumer, service)
                    #expect(consumer.ids == (wanted < 8 ? ids(wanted + 1...8) : []), "\(start)")
                }
                for wrong in [FeedDefinition.Start.seq(9), .seq(.max), .time("no-time")] {
                    #expect(throws: (any Error).self, "\(wrong)") {
                        try bench.administration.seek(bench.name("f"), to: wrong)
                    }
                }
                #expect(try bench.status("f").seq == 8)
            }
        }
    }

    /// Checks that messages that are outstanding during a seek can no longer be acknowledged.
    @Test func seekingWhileMessagesAreOut() throws {
        try FeedBench.with { bench in
            try write(bench, 1...8)
            try bench.apply("f", Self.definition)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                consumer.most = 5
                var held: [FeedDelivery] = []
                #expect(
                    eventually {
                        held = consumer.receive(service)
                        return !held.isEmpty
                    })
                let change = try bench.administration.seek(bench.name("f"), to: .seq(6)).change
                service.moved(bench.name("f"), change)
                #expect(consumer.settle(service, held.map(\.id), .acknowledge).allSatisfy { $0 != "done" })
                let other = bench.consumer("f", "other")
                try bench.drain(other, service)
                #expect(other.ids == ids(7...8))
            }
        }
    }

    // MARK: Dead messages

    private static let failedMessages = ["test:1:0", "test:2:0", "test:3:0", "test:4:0", "test:5:0", "test:6:0"]

    /// Runs `body` with six entries whose messages are all dead, two of each key.
    private func withDead(_ policy: String, _ body: (FeedBench, FeedService) throws -> Void) throws {
        try FeedBench.with { bench in
            try write(bench, 1...6)
            try bench.apply(
                "f",
                #"{"path": "/a/{k}", "start": "beginning", "max_attempts": 1, "on_dead": "\#(policy)", "backoff": {"first": "0s", "max": "0s"}}"#
            )
            try bench.serving { service in
                let consumer = bench.consumer("f")
                let isDead = try eventually {
                    let ids = consumer.receive(service).map(\.id)
                    if !ids.isEmpty {
                        _ = consumer.settle(service, ids, .reject(delayMilliseconds: 0, reason: "no"))
                    }
                    let status = try bench.status("f")
                    return status.deadLetters == (policy == "stop" ? 3 : 6) && status.seq == 6
                }
                let status = try bench.status("f")
                #expect(isDead, "\(status)")
                try body(bench, service)
            }
        }
    }

    private func dead(_ bench: FeedBench) throws -> [String] {
        try bench.administration.deadLetters(bench.name("f"), after: nil, limit: 100).map { $0.id(in: "test") }
    }

    private func position(_ id: String) throws -> FeedPosition { try #require(FeedPosition(id: id, in: "test")) }

    @Test func deadLettersAreListed() throws {
        try withDead("continue") { bench, _ in
            #expect(try dead(bench) == Self.failedMessages)
            let after = try bench.administration.deadLetters(
                bench.name("f"), after: FeedPosition(seq: 2, index: 0), limit: 3)
            #expect(after.map { $0.id(in: "test") } == ["test:3:0", "test:4:0", "test:5:0"])
            let first = try #require(after.first)
            #expect(first.key == "k0" && first.attempts == 1 && first.lastReason == "no")
            let text = String(decoding: first.json, as: UTF8.self)
            #expect(text.hasPrefix(#"{"id":"test:3:0","seq":3,"path":"/a/k0","key":"k0","#))
            #expect(text.contains(#""attempts":1,"errors":[{"time":""#) && text.contains(#""dead_at":"20"#))
        }
    }

    @Test func deadLettersAreTriedAgain() throws {
        try withDead("continue") { bench, service in
            let name = bench.name("f")
            let positions = try ["test:2:0", "test:99:0"].map(position)
            #expect(try bench.administration.retry(name, .positions(positions)) == 1)
            let consumer = bench.consumer("f")
            #expect(consumer.consume([service]) { consumer.ids == ["test:2:0"] })
            #expect(try bench.administration.retry(name, .key("k0")) == 2)
            #expect(consumer.consume([service]) { consumer.ids.count == 3 })
            #expect(consumer.ids.dropFirst() == ["test:3:0", "test:6:0"])
            #expect(try eventually { try dead(bench) == ["test:1:0", "test:4:0", "test:5:0"] })
            #expect(try bench.administration.retry(name, .key("none")) == 0)
            #expect(try bench.administration.retry(name, .all) == 3)
            #expect(consumer.consume([service]) { consumer.ids.count == 6 })
            #expect(consumer.repeated.isEmpty && Set(consumer.ids) == Set(Self.failedMessages))
            #expect(try eventually { try dead(bench).isEmpty })
            #expect(try eventually { try bench.status("f").setAside == 0 })
            // The message had been delivered before, but its attempts are counted from one again.
            #expect(consumer.done.allSatisfy { $0.attempt == 1 })
        }
    }

    @Test func deadLettersAreDropped() throws {
        try withDead("continue") { bench, service in
            let name = bench.name("f")
            let second = try position("test:2:0")
            #expect(try bench.administration.drop(name, .positions([second])) == 1)
            #expect(try bench.administration.drop(name, .positions([])) == 0)
            #expect(try bench.administration.drop(name, .key("k0")) == 2)
            #expect(try dead(bench) == ["test:1:0", "test:4:0", "test:5:0"])
            #expect(try bench.administration.drop(name, .all) == 3)
            #expect(try dead(bench).isEmpty)
            try bench.set("/a/k1", .int(7))
            let consumer = bench.consumer("f")
            try bench.drain(consumer, service)
            #expect(consumer.ids == ["test:7:0"])
        }
    }

    /// Checks that a key stops after a dead message, and continues once that message is retried or dropped.
    @Test func keysThatHaveStopped() throws {
        try withDead("stop") { bench, service in
            let name = bench.name("f")
            #expect(try dead(bench) == ["test:1:0", "test:2:0", "test:3:0"])
            #expect(try bench.status("f").setAside == 3)
            let consumer = bench.consumer("f")
            try bench.set("/a/k9", .int(7))
            #expect(consumer.consume([service]) { consumer.ids == ["test:7:0"] })
            // A retried message is delivered before the messages that were set aside after it.
            #expect(try bench.administration.retry(name, .key("k1")) == 1)
            #expect(consumer.consume([service]) { consumer.ids.count == 3 })
            #expect(consumer.ids.dropFirst() == ["test:1:0", "test:4:0"])
            // After a drop, the messages that were set aside are delivered.
            #expect(try bench.administration.drop(name, .key("k2")) == 1)
            #expect(consumer.consume([service]) { consumer.ids.count == 4 })
            #expect(consumer.ids.last == "test:5:0")
            #expect(try dead(bench) == ["test:3:0"])
            // Later messages of these keys are delivered as well. The third key is still stopped.
            try bench.set("/a/k1", .int(8))
            try bench.set("/a/k0", .int(9))
            #expect(consumer.consume([service]) { consumer.ids.last == "test:8:0" })
            #expect(try eventually { try bench.status("f").setAside == 2 })
            #expect(try bench.administration.retry(name, .all) == 1)
            #expect(consumer.consume([service]) { consumer.ids.count == 8 })
            #expect(consumer.ids.suffix(3) == ["test:3:0", "test:6:0", "test:9:0"])
            #expect(consumer.repeated.isEmpty)
        }
    }
}
