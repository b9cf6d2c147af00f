import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Regression tests of feeds, each on a complete service.
@Suite struct MendedTests {
    private func write(_ bench: FeedBench, _ key: String) throws {
        _ = try bench.log.sql.execute("select pathmirror.set('test', $1, '1')", [.text("/a/" + key)])
    }

    private func hold(_ consumer: BenchConsumer, _ service: FeedService) -> [FeedDelivery] {
        var held: [FeedDelivery] = []
        _ = eventually {
            held = consumer.receive(service)
            return !held.isEmpty
        }
        return held
    }

    /// Checks an acknowledgement after the database was restored to an older state under a running gateway.
    @Test func anAcknowledgementAfterTheDatabaseHasGoneBack() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "100ms"}"#)
            let consumer = bench.consumer("f")
            let proxy = try CuttingProxy(bench.url)
            defer { proxy.stop() }
            let service = try bench.service(proxy.url)
            defer { service.stop() }
            for number in 1...3 { try write(bench, "k\(number)") }
            try bench.drain(consumer, service)
            try bench.log.sql.executeScript("create table public.kept as select * from pathmirror.feed_progress")
            for number in 1...4 { try write(bench, "lost\(number)") }
            try bench.drain(consumer, service)
            try write(bench, "lost5")
            let held = hold(consumer, service)
            // Simulates a failover: all connections break, entries after 3 are lost, and other clients have written
            // since.
            proxy.setDown(true)
            try bench.log.sql.executeScript(
                """
                begin;
                delete from pathmirror.log where seq > 3;
                update pathmirror.namespace
                set head = 3, last_batch = (select batch_id from pathmirror.log where seq = 3);
                delete from pathmirror.node where path like '/a/lost%';
                delete from pathmirror.feed_progress;
                insert into pathmirror.feed_progress select * from kept;
                select pathmirror.set('test', '/a/new' || number, '1') from generate_series(1, 8) as number;
                commit
                """)
            proxy.setDown(false)
            _ = consumer.settle(service, held.map(\.id), .acknowledge)
            let later = bench.consumer("f")
            try bench.drain(later, service)
            #expect(Set(later.done.map(\.message.key)).isSuperset(of: (1...8).map { "new\($0)" }), "\(later.ids)")
        }
    }

    /// Checks a restored older state with the same generation and entries: the gateway's next move does not follow the
    /// last recorded one, although no other gateway runs the feed.
    @Test func aMoveThatDoesNotFollowTheLastOne() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "100ms"}"#)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                for number in 1...3 { try write(bench, "k\(number)") }
                try bench.drain(consumer, service)
                try bench.log.sql.executeScript("update pathmirror.feed_progress set moves = 0, seq = 1")
                try write(bench, "k4")
                try bench.drain(consumer, service)
                #expect(Set(consumer.ids) == Set((1...4).map { "test:\($0):0" }))
            }
        }
    }

    /// Checks that secrets with U+0000 are refused, because PostgreSQL's functions cannot read such a definition.
    @Test(arguments: [#""token":"a\u0000b""#, #""user":"u","password":"a\u0000b""#])
    func noSecretHoldsU0000(_ members: String) {
        let text = #"{"path":"/a/{k}","nats":{"url":"nats://h:1","subject":"a",\#(members)}}"#
        #expect(throws: (any Error).self) { try FeedDefinition.read(Array(text.utf8), name: "f") }
    }

    /// Checks that the stored form of an accepted definition is accepted.
    @Test func whatIsKeptOfManyBrokersCanBeRead() throws {
        let brokers = (1...21).map { "b\($0):1" }.joined(separator: ",")
        let text = #"{"path":"/x/{k}","kafka":{"brokers":"\#(brokers)","topic":"a"}}"#
        guard let definition = try? FeedDefinition.read(Array(text.utf8), name: "f") else { return }
        #expect(try FeedDefinition.read(stored: definition.json(as: .stored), name: "f") == definition)
    }

    /// Checks that keys that look alike are different keys, as in the tree.
    @Test func keysThatLookAlike() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path":"/a/{k}","start":"beginning","max_attempts":1,"on_dead":"stop"}"#)
            try bench.serving { service in
                try write(bench, "\u{e9}")
                let consumer = bench.consumer("f")
                let held = hold(consumer, service).map(\.id)
                _ = consumer.settle(service, held, .reject(delayMilliseconds: 0, reason: "no"))
                #expect(try eventually { try bench.status("f").deadLetters == 1 })
                try write(bench, "e\u{301}")
                let other = bench.consumer("f")
                try bench.drain(other, service)
                #expect(other.ids == ["test:2:0"])
                #expect(try bench.status("f").setAside == 0)
            }
        }
    }

    /// Checks that failures under a former path are not applied to messages at the same position under another path.
    @Test func anotherPathForgetsFailures() throws {
        try FeedBench.with { bench in
            let wait = #""backoff":{"first":"1m","max":"1m"},"ack_deadline":"100ms""#
            try bench.apply("f", #"{"path":"/a/{k}","start":"beginning",\#(wait)}"#)
            try bench.serving { service in
                try bench.set("/", Node(children: [(Key("a"), SharedReaderBench.wide(1)), (Key("b"), .int(1))]))
                let consumer = bench.consumer("f")
                let held = hold(consumer, service).map(\.id)
                #expect(consumer.settle(service, held, .reject(delayMilliseconds: nil, reason: "no")) == ["done"])
                let change = try bench.apply("f", #"{"path":"/b","ack_deadline":"100ms"}"#).change
                service.moved(bench.name("f"), try #require(change))
                let other = bench.consumer("f")
                try bench.drain(other, service)
                #expect(other.ids == ["test:1:0"] && other.done.map(\.attempt) == [1])
            }
        }
    }

    /// Checks that `-infinity` is refused as a time, without a database error.
    @Test func theBeginningOfTime() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path":"/a/{k}"}"#)
            #expect(throws: ReplayError.badPosition("-infinity")) {
                try bench.administration.seek(bench.name("f"), to: .time("-infinity"))
            }
        }
    }
}
