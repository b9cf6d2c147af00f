import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that a gateway that does not own the schema can run feeds.
@Suite struct FeedGatewayRoleTests {
    @Test func worksFeeds() throws {
        try FeedBench.with { bench in
            let service = try bench.service(role: "pathmirror_gateway") { $0.entriesBetweenTrees = 2 }
            defer { service.stop() }
            try bench.log.sql.executeScript("set role pathmirror_gateway")
            let name = bench.name("f")
            for number in 1...4 as ClosedRange<Int64> { try bench.set("/a/k\(number % 2)", .int(number)) }
            let definition = #"{"path": "/a/{k}", "start": "snapshot", "max_attempts": 1"#
            try bench.apply("f", definition + "}")
            let consumer = bench.consumer("f")
            consumer.most = 1
            var refused: [FeedDelivery] = []
            #expect(
                eventually {
                    refused = consumer.receive(service)
                    return !refused.isEmpty
                })
            let words = consumer.settle(service, refused.map(\.id), .reject(delayMilliseconds: 0, reason: "no"))
            #expect(words == ["done"])
            for number in 5...9 as ClosedRange<Int64> { try bench.set("/a/k\(number % 2)", .int(number)) }
            try bench.drain(consumer, service)
            #expect(try bench.status("f").deadLetters == 1)
            #expect(try bench.administration.retry(name, .all) == 1)
            #expect(consumer.consume([service]) { consumer.ids.last == refused[0].id })
            // Trees are stored for gateways that take the feed over.
            let namespace = try bench.namespaceID()
            #expect(try eventually { try bench.log.snapshots(namespace).contains { $0.seq > 4 } })
            let replayed = try FeedReplay(bench.log, name).run(from: 6, to: 7, isDryRun: false)
            #expect(replayed.messages == 2)
            let again = bench.consumer("f")
            #expect(again.consume([service]) { again.ids == ["test:6:0", "test:7:0"] })
            let applied = try bench.apply("f", definition + #", "include": "old"}"#)
            service.moved(name, try #require(applied.change))
            service.moved(name, try bench.administration.seek(name, to: .seq(8)).change)
            let last = bench.consumer("f")
            try bench.drain(last, service)
            #expect(last.ids == ["test:9:0"])
            service.moved(name, try bench.administration.remove(name))
        }
    }
}
