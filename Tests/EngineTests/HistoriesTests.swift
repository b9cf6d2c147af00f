import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks a database that has lost entries while the engine runs, by a failover or by the restore of an older state.
@Suite struct HistoriesTests {
    /// An engine that has followed four entries adopts the state of a database that has lost some of them. The first
    /// entry is always kept, and other gateways may have written after it.
    @Test(arguments: [0, 1, 3, 5])
    func whatWasLostIsGoneHereToo(written: Int) throws {
        try withProxiedEngine { url, proxy, engine in
            let namespace = try engine.namespace()
            for value in 1...4 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            try whileDown(proxy, engine) {
                try Self.rollBack(url, to: 1)
                try withDirectEngine(url) { other in
                    let writer = try other.namespace()
                    for number in 0..<written { _ = writer.write(.set("y/\(number)", .int(1))) }
                }
            }
            let head = 1 + Int64(written)
            // Without any write, the engine discovers the loss by itself.
            #expect(listener.wait { $0.resets.last == head || $0.root[Path(splitting: "x")] == .int(1) } != nil)
            #expect(eventually { namespace.snapshot.seq == head && !namespace.isSuspect })
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(1))
            #expect(namespace.snapshot.root[Path(splitting: "y")].childCount == written)
            #expect(eventually { engine.engine.health.isUp })
            #expect(namespace.write(.increment("x"))?.committedSeq == head + 1)
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(2))
            #expect(engine.metrics.rolledBack.current == 1)
            #expect(engine.metrics.rolledBackEntries.current == 3)
            #expect(listener.now.resets.count == 1)
            #expect(listener.wait { $0.seq == head + 1 }?.root == namespace.snapshot.root)
            #expect(listener.now.mistakes == [])
            try StoredState(url).check(equals: [namespace])
            #expect(try verify(url).isClean)
        }
    }

    /// The database has the same number of entries with other content: a write that was evaluated on the lost entries
    /// must not be committed, even if it comes before any check.
    @Test func aWriteOnWhatWasLostIsEvaluatedAgain() throws {
        try withDatabase { url in
            // The engine polls once in ten minutes; the connections stay open.
            let engine = try TestEngine(url)
            defer { engine.stop() }
            let namespace = try engine.namespace()
            for value in 1...3 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            try Self.rollBack(url, to: 1)
            try withDirectEngine(url) { other in
                let writer = try other.namespace()
                for _ in 0..<2 { _ = writer.write(.increment("x")) }
            }
            // The head is 3 on both sides; the announcement contains nothing new for the engine.
            #expect(namespace.write(.set("z", .int(1)))?.committedSeq == 4)
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(3))
            try Self.rollBack(url, to: 1)
            try withDirectEngine(url) { other in
                let writer = try other.namespace()
                for _ in 0..<3 { _ = writer.write(.increment("n")) }
            }
            #expect(namespace.write(.increment("x"))?.committedSeq == 5)
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(2))
            #expect(namespace.snapshot.root[Path(splitting: "z")] == .null)
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// Refusals are judged on the database's state, not on the lost one.
    @Test func refusalsAreOfWhatIsThere() throws {
        try withDatabase { url in
            let engine = try TestEngine(url)
            defer { engine.stop() }
            let namespace = try engine.namespace()
            for value in 1...2 as ClosedRange<Int64> { _ = namespace.write(.set("x", .int(value))) }
            try Self.rollBack(url, to: 1)
            try withDirectEngine(url) { other in _ = try other.namespace().write(.set("x", .int(7))) }
            let before = try #require(Self.current(engine.namespace()))
            #expect(before.root[Path(splitting: "x")] == .int(7))
        }
    }

    /// A restored database lacks a namespace that was created after the backup.
    @Test func aNamespaceThatIsGone() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            let namespace = try engine.namespace("late")
            _ = namespace.write(.set("x", .int(1)))
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            let connection = try LogConnection(url)
            defer { connection.close() }
            try connection.sql.executeScript(
                """
                begin;
                delete from pathmirror.node where namespace_id = \(namespace.id);
                delete from pathmirror.log where namespace_id = \(namespace.id);
                delete from pathmirror.namespace where id = \(namespace.id);
                -- Its number is another one's now.
                insert into pathmirror.namespace (id, name, head, last_batch, partitioned_to) overriding system value
                values (\(namespace.id), 'other', 1, gen_random_uuid(), 1000000);
                commit
                """)
            #expect(listener.wait { $0.hasEnded } != nil)
            #expect(eventually { namespace.write(.set("x", .int(2)))?.failure == .unknownNamespace("late") })
            let again = try engine.namespace("late")
            #expect(again.id != namespace.id)
            #expect(again.snapshot.root == .null)
            #expect(again.write(.set("x", .int(3)))?.committedSeq == 1)
        }
    }

    /// A namespace that was removed on purpose ends. (`e2e/test_placement.py` checks that no other namespace does.)
    @Test func aNamespaceThatWasRemoved() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            let namespace = try engine.namespace("removed")
            _ = namespace.write(.set("x", .int(1)))
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            let connection = try LogConnection(url)
            defer { connection.close() }
            #expect(try !connection.wasRemoved(namespace.id))
            #expect(try connection.removeNamespace(namespace.id))
            #expect(try connection.wasRemoved(namespace.id))
            #expect(listener.wait { $0.hasEnded } != nil)
            #expect(namespace.hasEnded)
            #expect(eventually { namespace.write(.set("x", .int(2)))?.failure == .unknownNamespace("removed") })
            let again = try engine.namespace("removed")
            #expect(again.id != namespace.id && again.snapshot.root == .null)
            #expect(again.write(.set("x", .int(3)))?.committedSeq == 1)
        }
    }

    /// Pruning old entries is not a loss: it causes neither a reload nor an alarm.
    @Test func pruningIsNoLoss() throws {
        try withEngines(2) { settings, _ in
            settings.pollMilliseconds = 20
        } _: { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            for value in 1...5 as ClosedRange<Int64> { _ = namespaces[0].write(.set("x", .int(value))) }
            #expect(namespaces[1].waitFor(5))
            let listener = RecordingListener()
            listener.started(namespaces[1].subscribe(listener, at: .root), at: .root)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test"))
            let pruning = Pruning(connection, record)
            try pruning.run(try pruning.plan(.entries(0), force: false))
            #expect(namespaces[0].write(.set("x", .int(6)))?.committedSeq == 6)
            #expect(namespaces[1].write(.set("x", .int(7)))?.committedSeq == 7)
            #expect(listener.wait { $0.seqs == [6, 7] } != nil)
            #expect(listener.now.resets == [])
            for engine in engines { #expect(engine.metrics.rolledBack.current == 0) }
        }
    }

    /// Resets the first namespace to the state of an older copy of the database: `x` counts the entries.
    static func rollBack(_ url: PostgresURL, to seq: Int64) throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        try connection.sql.executeScript(
            """
            begin;
            delete from pathmirror.log where seq > \(seq);
            update pathmirror.namespace
            set head = \(seq), last_batch = (select batch_id from pathmirror.log where seq = \(seq));
            delete from pathmirror.node where path <> '/x';
            update pathmirror.node set value = '\(seq)', version = \(seq);
            commit
            """)
    }

    private static func current(_ namespace: LiveNamespace) -> Snapshot? {
        let found = Condition<Snapshot?>(nil)
        namespace.withCurrentSnapshot { result in found.broadcast { $0 = try? result.get() } }
        return found.wait(milliseconds: 20_000) { $0 }
    }

    private func whileDown(_ proxy: CuttingProxy, _ engine: TestEngine, _ body: () throws -> Void) throws {
        proxy.setDown(true)
        #expect(eventually { !engine.engine.health.isUp })
        try body()
        proxy.setDown(false)
    }

    private func withProxiedEngine(_ body: (PostgresURL, CuttingProxy, TestEngine) throws -> Void) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            try body(url, proxy, engine)
        }
    }
}
