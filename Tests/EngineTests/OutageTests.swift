import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks outages of the database, full queues, and stops of the engine.
@Suite struct OutageTests {
    /// Connections that were terminated while idle cost no write, no check and no load.
    @Test func idleConnectionsThatWereEnded() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let administrator = try PostgresConnection(url)
            defer { administrator.close() }
            for round in 0..<4 as Range<Int64> {
                // Both engines write, so they contend and lock first.
                for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq != nil) }
                try administrator.executeScript(
                    """
                    select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name like 'pathmirror committer%'
                    """)
                #expect(namespaces[0].write(.increment("n"))?.committedSeq != nil)
                let isThere = Condition(false)
                namespaces[1].withCurrentSnapshot { result in
                    if case .success = result { isThere.broadcast { $0 = true } }
                }
                #expect(isThere.wait(milliseconds: 30_000) { $0 ? true : nil } == true)
                _ = try engines[1].namespace("new\(round)")
            }
            try StoredState(url).check(equals: namespaces)
        }
    }

    /// Between `migrate up` and its replacement, a gateway of the previous version loses its connections, as in a
    /// failover.
    @Test func aSchemaThatWasMigratedMeanwhileDoesNotKeepAGatewayFromConnectingAgain() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            #expect(namespaces[0].write(.increment("n"))?.committedSeq == 1)
            let administrator = try PostgresConnection(url)
            defer { administrator.close() }
            try administrator.executeScript(
                """
                insert into pathmirror.migration (version, name, checksum) values (999, 'later', 'x');
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()
                """)
            // A write may fail while connections are being lost.
            var seq: Int64?
            #expect(
                eventually {
                    seq = namespaces[0].write(.increment("n"))?.committedSeq
                    return seq != nil
                })
            // The other engine is notified on a connection that has passed all checks.
            #expect(eventually { namespaces[1].snapshot.seq >= seq ?? .max })
            #expect(eventually { engines.allSatisfy { $0.engine.health.isUp } })
        }
    }

    @Test func writesFailSoonWithoutTheDatabaseAndEverythingRecovers() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in
                settings.pollMilliseconds = 20
                // With this deadline, nothing below fails for lack of time.
                settings.commitDeadlineMilliseconds = 600_000
            }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            proxy.setDown(true)
            #expect(eventually { !engine.engine.health.isUp })
            // Reads are still served from memory.
            #expect(namespace.snapshot.root[Path(splitting: "x")] == .int(1))
            for _ in 0..<5 {
                let outcome = namespace.write(.set("x", .int(2)))
                guard case .unavailable? = outcome?.failure else {
                    Issue.record("no write succeeds, and none is of unknown outcome: \(String(describing: outcome))")
                    return
                }
            }
            guard case .failure(.unavailable) = engine.load("another") else {
                return #expect(Bool(false), "no namespace can be loaded")
            }
            // Meanwhile another gateway continues.
            try withDirectEngine(url) { other in
                let direct = try other.namespace()
                #expect(direct.write(.set("y", .int(1)))?.committedSeq == 2)
            }
            proxy.setDown(false)
            #expect(namespace.waitFor(2))
            #expect(eventually { namespace.write(.set("x", .int(3)))?.committedSeq != nil })
            #expect(engine.engine.health.isUp)
            _ = try engine.namespace("another")
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// A connection that can't be opened for a moment causes no long outage: the tail soon finds that the database is
    /// available.
    @Test func theTailFindsThatTheDatabaseIsThere() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in settings.commitDeadlineMilliseconds = 1_000 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            let name = try #require(url.databaseName)
            let administrator = try PostgresConnection(url.withDatabase("postgres"))
            defer { administrator.close() }
            let committers = "datname = '\(name)' and application_name like 'pathmirror committer%'"
            try administrator.executeScript("alter database \(name) allow_connections false")
            try administrator.executeScript(
                "select pg_terminate_backend(pid) from pg_stat_activity where \(committers)")
            #expect(
                try eventually {
                    try administrator.execute("select count(*) from pg_stat_activity where \(committers)")
                        .int64(0, 0) == 0
                })
            #expect(namespace.write(.set("x", .int(2)))?.committedSeq == nil)
            try administrator.executeScript("alter database \(name) allow_connections true")
            #expect(eventually { namespace.write(.set("x", .int(3)))?.committedSeq != nil })
        }
    }

    /// An engine may start before its database does.
    @Test func startingWithoutTheDatabase() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            proxy.setDown(true)
            let engine = try TestEngine(proxy.url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            guard case .failure(.unavailable) = engine.load("test") else {
                return #expect(Bool(false), "no namespace can be loaded")
            }
            proxy.setDown(false)
            #expect(eventually { (try? engine.load("test").get()) != nil })
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
        }
    }

    /// The network silently drops packets. Writes in flight are given up at their deadline, later ones are refused at
    /// once, and nothing waits for lost answers when the network is back.
    @Test func aSilentNetwork() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in
                settings.pollMilliseconds = 100
                // This committer has a connection already.
                settings.committers = 1
            }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            proxy.setSwallowing(true)
            let sink = CollectingSink()
            namespace.submit(.set("x", .int(2)), to: sink, token: 1)
            #expect(eventually { !engine.engine.health.isUp })
            // These writes are queued after the first, whose outcome is still being determined.
            for token in 2...5 as ClosedRange<UInt64> {
                namespace.submit(.set("x", .int(3)), to: sink, token: token)
                guard case .unavailable? = sink.outcomes[token]?.failure else {
                    Issue.record("not refused at once: \(String(describing: sink.outcomes[token]))")
                    return
                }
            }
            // The deadline is 10 s; a busy machine is allowed 30 s.
            #expect(sink.outcome(1, seconds: 30)?.failure == .outcomeUnknown)
            proxy.setSwallowing(false)
            #expect(eventually { engine.engine.health.isUp })
            #expect(eventually { namespace.write(.set("x", .int(4)))?.committedSeq != nil })
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// One connection is dead, and the others work: its write is given up, or sent on another connection, within the
    /// deadline.
    @Test func oneSilentConnection() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.committers = 1 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
            proxy.setSwallowing(true)
            let sink = CollectingSink()
            namespace.submit(.increment("x"), to: sink, token: 1)
            #expect(eventually { proxy.lossCount > 0 })
            proxy.setSwallowing(false)
            #expect(sink.outcome(1, seconds: 30)?.committedSeq == 2)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func fullQueuesRefuse() throws {
        try withEngines(1) { settings, _ in
            settings.maxWaitingWrites = 10
            settings.maxWaitingBytes = 1_000
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            try Self.whileLocked(url, namespace) {
                namespace.submit(.set("first", .int(1)), to: sink, token: 0)
                #expect(eventually { namespace.waitingWrites == 0 })
                for token in 1...15 as ClosedRange<UInt64> {
                    namespace.submit(.set("x/\(token)", .int(1)), to: sink, token: token)
                }
                // Only these writes were refused, at once.
                #expect(Set(sink.outcomes.keys) == [11, 12, 13, 14, 15])
                #expect(sink.outcomes.values.allSatisfy { $0.failure == .overloaded })
            }
            let outcomes = try #require(sink.all(16))
            #expect((0...10).allSatisfy { outcomes[$0]?.committedSeq != nil })
            try Self.whileLocked(url, namespace) {
                namespace.submit(.set("second", .int(1)), to: sink, token: 20)
                #expect(eventually { namespace.waitingWrites == 0 })
                // A single write above the bound is accepted if no write waits.
                namespace.submit(.set("big", .int(1), byteCount: 5_000), to: sink, token: 21)
                namespace.submit(.set("small", .int(1)), to: sink, token: 22)
                #expect(sink.outcomes[22]?.failure == .overloaded)
            }
            #expect(sink.outcome(20)?.committedSeq != nil)
            #expect(sink.outcome(21)?.committedSeq != nil)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func stoppingCommitsWhatWaits() throws {
        try withDatabase { url in
            let engine = try TestEngine(url)
            let namespace = try engine.namespace()
            let sink = CollectingSink()
            let late = CollectingSink()
            var tries = 0
            var stopper: Thread?
            try Self.whileLocked(url, namespace) {
                for token in 0..<50 as Range<UInt64> {
                    namespace.submit(.set("x/\(token)", .int(1)), to: sink, token: token)
                }
                let stopping = engine.engine
                stopper = Thread(name: "stopper") { stopping.stop(milliseconds: 20_000) }
                // Writes that arrive before the engine begins to stop are accepted, too.
                #expect(
                    eventually {
                        namespace.submit(.set("late", .int(1)), to: late, token: UInt64(tries))
                        tries += 1
                        return late.outcomes[UInt64(tries - 1)]?.failure == .stopping
                    })
            }
            stopper?.join()
            let outcomes = sink.outcomes
            #expect(outcomes.count == 50)
            #expect(outcomes.values.allSatisfy { $0.committedSeq != nil })
            let stored = try StoredState(url)
            #expect(late.outcomes.count == tries)
            #expect(stored.head == 50 + Int64(tries) - 1)
            #expect(namespace.write(.set("late", .int(1)))?.failure == .stopping)
        }
    }

    /// A damaged log is reported once in a while, not in a tight loop.
    @Test func damagedLogIsNotReadInALoop() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in settings.pollMilliseconds = 20 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            try withDirectEngine(url) { other in
                let writer = try other.namespace()
                #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 1)
                let connection = try LogConnection(url)
                defer { connection.close() }
                // From here on the log can't be read: entry 2 has an unknown operation.
                try connection.sql.executeScript(
                    """
                    create function damage() returns trigger language plpgsql as $$
                    begin new.op = 'damaged'; return new; end $$;
                    create trigger damage before insert on pathmirror.log for each row when (new.seq = 2)
                    execute function damage()
                    """)
                #expect(writer.write(.set("x", .int(2)))?.committedSeq == 2)
                guard case .corrupt? = namespace.write(.set("x", .int(3)))?.failure else {
                    return #expect(Bool(false), "a write on what can't be read must fail")
                }
                // The server counts the reads: there are a few a second, not thousands.
                let before = try Self.indexScans(connection)
                let start = Clock.monotonicMilliseconds
                #expect(eventually { Clock.monotonicMilliseconds - start > 500 })
                #expect(eventually { ((try? Self.indexScans(connection)) ?? 0) >= before })
                let scans = try Self.indexScans(connection) - before
                let passed = Clock.monotonicMilliseconds - start
                #expect(scans * 5 < passed, "\(scans) in \(passed) ms")
                #expect(namespace.snapshot.seq == 1)
            }
        }
    }

    /// Returns the number of index and sequential scans of log tables that the server has counted so far.
    private static func indexScans(_ connection: LogConnection) throws -> Int64 {
        try connection.sql.execute(
            "select coalesce(sum(idx_scan + seq_scan), 0)::bigint from pg_stat_user_tables where relname like 'log\\_%'"
        ).int64(0, 0)
    }

    /// Runs the body while it holds the lock of the namespace's head, so that no batch can be committed.
    static func whileLocked(_ url: PostgresURL, _ namespace: LiveNamespace, _ body: () throws -> Void) throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        _ = try connection.lockHead(namespace.id, expectedHead: namespace.snapshot.seq)
        try body()
        connection.unlockHead()
    }
}

func withDirectEngine(_ url: PostgresURL, _ body: (TestEngine) throws -> Void) throws {
    let engine = try TestEngine(url)
    defer { engine.stop() }
    try body(engine)
}
