import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Feeds

/// Imports that leave the log, or become others, while a feed reads their parts: the feed starts again, and never mixes two entries.
@Suite struct MissingPartsTests {
    private static let readsPart = "select changes::text from pathmirror.log_part"

    private func load(_ bench: FeedBench, _ place: String) throws {
        let record = try #require(try bench.log.namespace(named: "test"))
        var settings = Importer.Settings()
        settings.bufferBytes = 1
        let importer = try Importer(bench.log, record, at: Path(splitting: place), settings: settings)
        for number in 0..<4 { try importer.add(Array("/\(place)/k\(number)".utf8), .int(Int64(number))) }
        try importer.finish()
        #expect(bench.namespace.waitFor(importer.lastSeq))
    }

    /// A feed whose import is gone does not stop the namespace's reader: it is broken, and another feed is read.
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
            // Nothing of the import has come.
            #expect(Set(consumer.ids).isSubset(of: ["test:1:0"]))
            try bench.apply("new", #"{"path": "/a/{k}", "start": "snapshot"}"#)
            let new = bench.consumer("new")
            try bench.drain(new, service)
            #expect(new.ids == (0..<4).map { "test:3:s\($0)" })
            // Put elsewhere, the feed goes on.
            let change = try bench.administration.seek(bench.name("f"), to: .snapshot).change
            service.moved(bench.name("f"), change)
            try bench.drain(consumer, service)
            #expect(consumer.ids.suffix(4).elementsEqual(new.ids))
            #expect(try eventually { try bench.status("f").state == "running" })
        }
    }

    /// The connection is lost while an import's parts are read, and after the failover its seq is another import's.
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
