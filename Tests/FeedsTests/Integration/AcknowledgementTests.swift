import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of when a consumer is notified that a message is done.
@Suite struct AcknowledgementTests {
    /// Checks that "done" is answered only after the acknowledgement is durable.
    @Test func isNotAnsweredBeforeItIsWritten() throws {
        try FeedBench.with { bench in
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "10m"}"#)
            try bench.serving { service in
                let consumer = bench.consumer("f")
                try bench.set("/a/k1", .int(1))
                try bench.drain(consumer, service)
                try bench.set("/a/k2", .int(2))
                var held: [FeedDelivery] = []
                #expect(
                    eventually {
                        held = consumer.receive(service)
                        return !held.isEmpty
                    })
                // The deliveries are recorded. Then another session locks the row.
                #expect(eventually { (try? bench.status("f").delivered) == 2 })
                let stranger = try PostgresConnection(bench.url)
                defer { stranger.close() }
                try stranger.executeScript("begin; select from pathmirror.feed_progress for update")
                let answer = Condition<[String]?>(nil)
                service.settle(consumer.feed, ids: held.map(\.id), consumer: consumer.name, .acknowledge) { result in
                    answer.broadcast { $0 = (try? result.get()) ?? [] }
                }
                #expect(
                    eventually {
                        let waiting = try? stranger.execute(
                            "select from pg_locks where not granted and pg_blocking_pids(pid) @> array[pg_backend_pid()]"
                        )
                        return (waiting?.rowCount ?? 0) > 0
                    })
                #expect(answer.wait(milliseconds: 1) { $0 } == nil)
                #expect(try bench.status("f").acknowledged == 1)
                try stranger.executeScript("rollback")
                #expect(answer.wait(milliseconds: 30_000) { $0 } == ["done"])
                #expect(try bench.status("f").acknowledged == 2)
            }
        }
    }
}
