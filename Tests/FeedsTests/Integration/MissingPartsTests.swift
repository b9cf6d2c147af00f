import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Checks that a feed restarts, and never mixes two entries, if an import disappears or is replaced while its parts are
/// read.
@Suite struct MissingPartsTests {
    private static let readsPart = "select changes::text from pathmirror.log_part"

    private func load(_ bench: FeedBench, _ path: String) throws {
        let record = try #require(try bench.log.namespace(named: "test"))
        var settings = Importer.Settings()
        settings.bufferBytes = 1
        let importer = try Importer(bench.log, record, at: Path(splitting: path), settings: settings)
        for number in 0..<4 { try importer.add(Array("/\(path)/k\(number)".utf8), .int(Int64(number))) }
        try importer.finish()
        #expect(bench.namespace.waitFor(importer.lastSeq))
    }

    /// Checks that a feed whose import is missing is broken without stopping the namespace's reader, which reads
    /// another feed.
    @Test(arguments: [
        """
        delete from pathmirror.log where seq <= 2; delete from pathmirror.log_part;
        update pathmirror.namespace set retained_from = 3
        """,
        "delete from pathmirror.log_part where part > 0",
    ])
    func partsThatGoUnderAReader(_ removal: String) throws {
        try FeedBench.with { bench in
            try bench.set("/a/k9", .int(9))
            try load(bench, "a")
            _ = try bench.log.takeSnapshot(bench.namespaceID(), for: .prune)
            try bench.set("/a/k1", .int(-1))
            try bench.apply("f", #"{"path": "/a/{k}", "start": "beginning", "ack_deadline": "1s"}"#)
            let url = bench.url
            let removed = AtCall(Self.readsPart, occurrence: 2, on: "pathmirror feed reader") {
                try runScript(removal, on: url)
            }
            let service = try bench.service(faults: removed) { $0.readers = 1 }
            defer { service.stop() }
            let consumer = bench.consumer("f")
            #expect(try consumer.consume([service]) { try bench.status("f").state == "broken" })
            #expect(removed.isDone)
            // No message of the import was delivered.
            #expect(Set(consumer.ids).isSubset(of: ["test:1:0"]))
            try bench.apply("new", #"{"path": "/a/{k}", "start": "snapshot"}"#)
            let new = bench.consumer("new")
            try bench.drain(new, service)
            #expect(new.ids == (0..<4).map { "test:3:s\($0)" })
            // After a seek the feed continues.
            let change = try bench.administration.seek(bench.name("f"), to: .snapshot).change
            service.moved(bench.name("f"), change)
            try bench.drain(consumer, service)
            #expect(consumer.ids.suffix(4).elementsEqual(new.ids))
            #expect(try eventually { try bench.status("f").state == "running" })
        }
    }

    /// Checks a connection lost while an import's parts are read, followed by a failover after which another import has
    /// the same seq.
    @Test func anotherImportAfterAFailover() throws {
        try FeedBench.with { bench in
            try bench.set("/a/k9", .int(9))
            try load(bench, "a")
            try bench.apply("f", #"{"path": "/{top}/{k}", "start": "beginning", "ack_deadline": "1s"}"#)
            let url = bench.url
            let replaced = AtCall(Self.readsPart, on: "pathmirror feed reader", losing: .before) {
                try runScript(
                    """
                    begin;
                    update pathmirror.namespace set last_batch = gen_random_uuid();
                    update pathmirror.log set batch_id = namespace.last_batch, path = '/b',
                        changes = replace(changes::text, '/a', '/b')::json
                        from pathmirror.namespace where log.namespace_id = namespace.id and seq = 2;
                    update pathmirror.log_part set changes = replace(changes::text, '/a/', '/b/')::json;
                    commit
                    """, on: url)
            }
            let service = try bench.service(faults: replaced) { $0.readers = 1 }
            defer { service.stop() }
            let consumer = bench.consumer("f")
            try bench.drain(consumer, service)
            #expect(replaced.isDone)
            #expect(Set(consumer.ids) == Set(["test:1:0"] + (0..<4).map { "test:2:\($0)" }))
            #expect(consumer.done.allSatisfy { $0.message.facts.event == "created" })
        }
    }
}
