import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Tests of a database that was restored to an older state with the feeds' positions, and that has received other
/// writes since.
@Suite struct LostEntriesTests {
    private static let definition = #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "100ms"}"#

    private struct Backup {
        let bench: FeedBench

        init(_ bench: FeedBench) throws {
            self.bench = bench
            try bench.log.sql.executeScript(
                "create table public.kept as select * from pathmirror.feed_progress; create table public.kept_head as select head from pathmirror.namespace"
            )
        }

        func restore() throws {
            try bench.log.sql.executeScript(
                """
                begin;
                delete from pathmirror.log where seq > (select head from kept_head);
                update pathmirror.namespace set head = kept_head.head,
                    last_batch = (select batch_id from pathmirror.log where seq = kept_head.head) from kept_head;
                delete from pathmirror.node where path like '/a/lost%';
                delete from pathmirror.feed_progress;
                insert into pathmirror.feed_progress select * from kept;
                select pathmirror.set('test', '/a/new' || number, '1') from generate_series(1, 8) as number;
                commit
                """)
        }
    }

    private func write(_ bench: FeedBench, _ key: String) throws {
        _ = try bench.log.sql.execute("select pathmirror.set('test', $1, '1')", [.text("/a/" + key)])
    }

    private static let new = (1...8).map { "new\($0)" }

    /// Checks the restore while no gateway runs.
    @Test func betweenTwoGateways() throws {
        try FeedBench.with { bench in
            try bench.apply("f", Self.definition)
            let consumer = bench.consumer("f")
            var backup: Backup?
            try bench.serving { service in
                for number in 1...3 { try write(bench, "k\(number)") }
                try bench.drain(consumer, service)
                backup = try Backup(bench)
                for number in 1...5 { try write(bench, "lost\(number)") }
                try bench.drain(consumer, service)
            }
            try backup?.restore()
            let later = bench.consumer("f")
            try bench.serving { service in try bench.drain(later, service) }
            #expect(later.done.map(\.message.key) == Self.new)
        }
    }
}
