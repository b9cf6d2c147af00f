import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks how an engine handles entries that it did not write: imports, pruned logs, restored databases.
@Suite struct FollowingTests {
    @Test func importsOfOthersAreOneStep() throws {
        try withEngines(1) { settings, _ in
            settings.pollMilliseconds = 20
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            #expect(namespace.write(.update("", [("a/old", .int(1)), ("b", .int(2))]))?.committedSeq == 1)
            let listener = RecordingListener()
            let path = Path(splitting: "a/k7")
            listener.started(namespace.subscribe(listener, at: path), at: path)
            let seq = try Self.importRows(url, at: Path(splitting: "a"), count: 300, bufferBytes: 512)
            #expect(seq == 2)
            #expect(namespace.waitFor(2))
            #expect(namespace.snapshot.root[Path(splitting: "a")].childCount == 300)
            #expect(namespace.snapshot.root[Path(splitting: "b")] == .int(2))
            #expect(listener.now.seqs == [2])
            #expect(listener.now.mistakes == [])
            #expect(namespace.write(.set("a/k7", .int(-1)))?.committedSeq == 3)
            #expect(try verify(url).isClean)
            // A gateway that starts now has the same tree.
            try withDirectEngine(url) { other in
                let fresh = try other.namespace()
                #expect(fresh.snapshot.root == namespace.snapshot.root)
            }
        }
    }

    /// An import arrives while the engine contends, and so locks the head first.
    @Test func importsBetweenContendedWrites() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            #expect(
                eventually {
                    for namespace in namespaces { _ = namespace.write(.increment("n")) }
                    return engines.allSatisfy { $0.metrics.conflicts.current > 0 }
                })
            let total = try StoredState(url).root[Path(splitting: "n")]
            _ = try Self.importRows(url, at: Path(splitting: "a"), count: 100, bufferBytes: 512)
            for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq != nil) }
            guard case .int(let before) = total else { return #expect(Bool(false), "the counter is a number") }
            let stored = try StoredState(url)
            #expect(stored.root[Path(splitting: "n")] == .int(before + 2))
            #expect(stored.root[Path(splitting: "a")].childCount == 100)
            for namespace in namespaces {
                #expect(namespace.waitFor(stored.head))
                #expect(namespace.snapshot.root == stored.root)
            }
            #expect(try verify(url).isClean)
        }
    }

    /// The entries in between are pruned: the tree is reloaded, and listeners are notified to restart.
    @Test(arguments: [1, 0])
    func prunedLog(left: Int64) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            proxy.setDown(true)
            #expect(eventually { !engine.engine.health.isUp })
            try withDirectEngine(url) { other in
                let writer = try other.namespace()
                for value in 2...5 as ClosedRange<Int64> { _ = writer.write(.set("x", .int(value))) }
            }
            let connection = try LogConnection(url)
            defer { connection.close() }
            try connection.sql.executeScript(
                """
                delete from pathmirror.log where seq <= \(5 - left);
                update pathmirror.namespace set retained_from = \(6 - left)
                """)
            proxy.setDown(false)
            #expect(listener.wait { $0.resets == [5] } != nil)
            #expect(namespace.waitFor(5))
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(5))
            #expect(eventually { namespace.write(.set("x", .int(6)))?.committedSeq == 6 })
            #expect(listener.wait { $0.seqs.last == 6 } != nil)
            #expect(listener.now.mistakes == [])
        }
    }

    /// An import is removed from the log while the engine reads its parts, or was never complete: the tree is loaded,
    /// and writes continue.
    @Test(arguments: [
        """
        delete from pathmirror.log where seq = 2; delete from pathmirror.log_part;
        update pathmirror.namespace set retained_from = 3
        """,
        "delete from pathmirror.log_part where part > 0",
    ])
    func importsThatGoWhileTheyAreRead(_ removal: String) throws {
        try withDatabase { url in
            let removed = AtCall("select changes::text from pathmirror.log_part", occurrence: 2) {
                try runScript(removal, on: url)
            }
            let engine = try TestEngine(url) { settings, session in
                settings.pollMilliseconds = 20
                session.connection.faults = removed
            }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("a/old", .int(1)))?.committedSeq == 1)
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            #expect(try Self.importRows(url, at: Path(splitting: "a"), count: 300, bufferBytes: 512) == 2)
            #expect(listener.wait { $0.resets == [2] } != nil)
            #expect(removed.isDone)
            #expect(namespace.write(.set("a/k7", .int(-1)))?.committedSeq == 3)
            #expect(listener.wait { $0.seqs.last == 3 } != nil)
            #expect(listener.now.mistakes == [])
            // A gateway that starts now has the same tree.
            try withDirectEngine(url) { other in
                let fresh = try other.namespace()
                #expect(fresh.snapshot.seq == 3 && fresh.snapshot.root == namespace.snapshot.root)
            }
        }
    }

    /// A failover loses the newest entries, so the engine is ahead of the database. It must return to the database's
    /// state.
    @Test func databaseSetBack() throws {
        try withEngines(1) { settings, _ in
            settings.pollMilliseconds = 20
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            for value in 1...3 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            let connection = try LogConnection(url)
            defer { connection.close() }
            try connection.sql.executeScript(
                """
                begin;
                delete from pathmirror.log where seq > 1;
                update pathmirror.namespace set head = 1,
                    last_batch = (select batch_id from pathmirror.log where seq = 1);
                update pathmirror.node set value = '1', version = 1;
                commit
                """)
            #expect(namespace.write(.increment("x"))?.committedSeq == 2)
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(2))
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func readingTheLog() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            for value in 1...30 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            let read = CollectedEntries()
            engines[0].engine.readLog(
                namespace.id, after: 4, through: 20, patience: 0, each: read.take, completion: read.finish)
            let entries = try #require(read.wait())
            #expect(entries.map(\.seq) == Array(5...20))
            #expect(entries.first?.changes == [Change(path: Path(splitting: "x"), value: .int(5))])
        }
    }

    static func importRows(_ url: PostgresURL, at path: Path, count: Int, bufferBytes: Int) throws -> Int64 {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(named: "test"))
        var settings = Importer.Settings()
        settings.bufferBytes = bufferBytes
        let importer = try Importer(connection, record, at: path, settings: settings)
        for index in 0..<count {
            try importer.add(Array((path.description + "/k\(index)").utf8), .int(Int64(index)))
        }
        try importer.finish()
        return importer.lastSeq
    }
}
