import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that large writes are prepared concurrently with other writes.
@Suite struct LargeWriteTests {
    private static func wide(_ count: Int, from first: Int = 0) -> Node {
        Node(children: (first..<(first + count)).map { (Key("k\($0)"), Node.int(Int64($0))) })
    }

    @Test func isOneEntryAndOneTransaction() throws {
        try withLarge(rows: 100) { url, engines in
            let namespace = try engines[0].namespace()
            let other = try engines[1].namespace()
            let listener = RecordingListener()
            listener.started(other.subscribe(listener, at: .root), at: .root)
            #expect(namespace.write(Write.set("big", Self.wide(500)).overtakable)?.committedSeq == 1)
            #expect(namespace.write(.set("small", .int(1)))?.committedSeq == 2)
            #expect(namespace.write(Write.set("big", Self.wide(500, from: 250)).overtakable)?.committedSeq == 3)
            #expect(namespace.write(Write.set("big", .null).overtakable)?.committedSeq == 4)
            #expect(engines[0].metrics.largeWrites.current == 3)
            #expect(engines[0].metrics.largeWriteRetries.current == 0)
            try StoredState(url).check(equals: [namespace, other])
            #expect(listener.wait { $0.seq == 4 } != nil)
            #expect(listener.now.mistakes == [])
            #expect(listener.now.seqs == [1, 2, 3, 4])
            #expect(try verify(url).isClean)
        }
    }

    /// Rows contain the entry that wrote them last.
    @Test func rowsNameTheirEntry() throws {
        try withLarge(rows: 100) { url, engines in
            let namespace = try engines[0].namespace()
            _ = namespace.write(.set("small", .int(1)))
            #expect(namespace.write(Write.set("big", Self.wide(200)).overtakable)?.committedSeq == 2)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let found = try connection.readSubtrees(
                namespace.id, [Path(splitting: "big/k7"), Path(splitting: "small")])
            #expect(found.map(\.version) == [2, 1])
            let rows = try connection.sql.execute(
                "select distinct pathmirror.version_seq(version) from pathmirror.node where path like '/big/%'")
            #expect(try (0..<rows.rowCount).map { try rows.int64($0, 0) } == [2])
        }
    }

    /// A blocked large write delays no other write, and ends once it is unblocked.
    @Test func smallOnesContinue() throws {
        try withLarge(rows: 100) { url, engines in
            let here = try engines[0].namespace()
            let there = try engines[1].namespace()
            let holder = try PostgresConnection(url)
            defer { holder.close() }
            try holder.executeScript("begin; lock table pathmirror.log_part in share mode")
            let sink = CollectingSink()
            here.submit(Write.set("big", Self.wide(500)).overtakable, to: sink, token: 1)
            for value in 0..<20 as Range<Int64> {
                #expect(here.write(.set("here", .int(value)))?.committedSeq != nil)
                #expect(there.write(.set("there", .int(value)))?.committedSeq != nil)
            }
            #expect(sink.outcomes.isEmpty)
            try holder.executeScript("rollback")
            #expect(sink.outcome(1)?.committedSeq == 41)
            try StoredState(url).check(equals: [here, there])
        }
    }

    /// A concurrent write to the same path comes first, and the large write replaces its value.
    @Test func aSecondStartBeginsAgain() throws {
        try withLarge(rows: 100) { url, engines in
            let here = try engines[0].namespace()
            let there = try engines[1].namespace()
            let holder = try PostgresConnection(url)
            defer { holder.close() }
            try holder.executeScript("begin; lock table pathmirror.log_part in share mode")
            let sink = CollectingSink()
            here.submit(Write.set("big", Self.wide(500)).overtakable, to: sink, token: 1)
            #expect(eventually { engines[0].metrics.largeWrites.current == 1 })
            #expect(Self.waits(url), "the large write waits for the table")
            #expect(there.write(.set("big/k7/deeper", .int(7)))?.committedSeq == 1)
            try holder.executeScript("rollback")
            #expect(sink.outcome(1)?.committedSeq == 2)
            #expect(engines[0].metrics.largeWriteRetries.current >= 1)
            #expect(here.snapshot.root[Path(splitting: "big")] == Self.wide(500))
            try StoredState(url).check(equals: [here, there])
        }
    }

    /// A small write to rows that a large one has written, and not committed, makes the large one start again.
    @Test func smallWriteDoesNotWaitForRows() throws {
        try withLarge(rows: 100) { url, engines in
            let here = try engines[0].namespace()
            let there = try engines[1].namespace()
            try Self.stopOnce(url, at: "/big/k499")
            let sink = CollectingSink()
            here.submit(Write.set("big", Self.wide(500)).overtakable, to: sink, token: 1)
            #expect(eventually { Self.isStopped(url) })
            #expect(there.write(Write.set("big", Self.wide(400)))?.committedSeq == 1)
            #expect(sink.outcome(1)?.committedSeq == 2)
            #expect(here.snapshot.root[Path(splitting: "big")] == Self.wide(500))
            try StoredState(url).check(equals: [here, there])
        }
    }

    /// A large write that has written all its rows waits for the gateway's committer, which waits for one of these
    /// rows: there is no statement to cancel, and PostgreSQL sees no deadlock.
    @Test func largeWriteThatWaitsForItsTurnMakesWay() throws {
        try withLarge(rows: 100) { url, engines in
            let here = try engines[0].namespace()
            let holder = try PostgresConnection(url)
            defer { holder.close() }
            try holder.executeScript(
                """
                create function public.wait() returns trigger language plpgsql as $$
                begin
                    if new.path = '/big/k499' then perform pg_advisory_xact_lock(7); end if;
                    return new;
                end $$;
                create trigger wait after insert on pathmirror.node for each row execute function public.wait();
                """)
            try holder.executeScript("begin; select pg_advisory_xact_lock(7)")
            let large = CollectingSink()
            here.submit(Write.set("big", Self.wide(500)).overtakable, to: large, token: 1)
            #expect(
                eventually { Self.asks(url, "application_name like 'pathmirror large%' and wait_event = 'advisory'") })
            let small = CollectingSink()
            here.submit(Write.set("big", Self.wide(50)), to: small, token: 1)
            #expect(
                eventually {
                    Self.asks(url, "application_name like 'pathmirror committer%' and wait_event_type = 'Lock'")
                })
            // The rows are written now; the watcher detects that the write would wait for its turn forever.
            try holder.executeScript("commit")
            #expect(small.outcome(1)?.committedSeq == 1)
            #expect(large.outcome(1)?.committedSeq == 2)
            #expect(engines[0].metrics.endedBlockers.current == 0)
            try StoredState(url).check(equals: [here])
        }
    }

    /// The database becomes unavailable, and the engine stops, while a large write is being prepared or waits for its
    /// turn: it is answered.
    @Test(arguments: [true, false]) func endsWithTheEngine(databaseGoes: Bool) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.largeWriteRows = 100 }
            let namespace = try engine.namespace()
            let holder = try PostgresConnection(url)
            defer { holder.close() }
            try holder.executeScript("begin; lock table pathmirror.log_part in share mode")
            let sink = CollectingSink()
            for token in 0..<3 as Range<UInt64> {
                namespace.submit(Write.set("big\(token)", Self.wide(500)).overtakable, to: sink, token: token)
            }
            #expect(Self.waits(url))
            if databaseGoes { proxy.setDown(true) }
            engine.engine.stop(milliseconds: 200)
            #expect(sink.all(3)?.count == 3)
            #expect(sink.repeated == [])
            #expect(sink.outcomes.values.allSatisfy { $0.failure != nil })
        }
    }

    /// A removal of many rows is large although its request is short: the number of waiting ones is bounded.
    @Test func tooManyAreRefused() throws {
        try withLarge(rows: 100) { url, engines in
            let namespace = try engines[0].namespace()
            let holder = try PostgresConnection(url)
            defer { holder.close() }
            try holder.executeScript("begin; lock table pathmirror.log_part in share mode")
            let sink = CollectingSink()
            namespace.submit(Write.set("big", Self.wide(200)).overtakable, to: sink, token: 0)
            #expect(Self.waits(url), "the first is being prepared")
            for token in 1...300 as ClosedRange<UInt64> {
                namespace.submit(Write.set("big", Self.wide(200)).overtakable, to: sink, token: token)
            }
            #expect(sink.all(44)?.values.allSatisfy { $0.failure == .overloaded } == true)
            try holder.executeScript("rollback")
            #expect(sink.all(301)?.values.filter { $0.committedSeq != nil }.count == 257)
        }
    }

    @Test func refusedOnesAreRefused() throws {
        try withLarge(rows: 100) { url, engines in
            let namespace = try engines[0].namespace()
            let write = Write.set("big", Self.wide(500), expecting: Node.int(1).hash).overtakable
            guard case .preconditionFailed? = namespace.write(write) else {
                return #expect(Bool(false), "the value is not the expected one")
            }
            #expect(try StoredState(url).head == 0)
            #expect(namespace.write(Write.set("big", Self.wide(500), expecting: "").overtakable)?.committedSeq == 1)
        }
    }

    /// Every write is either a large one or a small one of the other gateway, to few paths: each is in the log as
    /// answered.
    @Test(arguments: 1...3 as ClosedRange<UInt64>) func randomOnes(seed: UInt64) throws {
        try withLarge(rows: -1) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let sinks = (0..<4).map { _ in CollectingSink() }
            let threads = sinks.enumerated().map { number, sink in
                Thread(name: "client") {
                    var random = TreeGenerator(seed: seed * 100 + UInt64(number))
                    let namespace = namespaces[number % 2]
                    for token in 0..<60 as Range<UInt64> {
                        let write = random.write()
                        namespace.submit(number < 2 ? write.overtakable : write, to: sink, token: token)
                        _ = sink.outcome(token)
                    }
                }
            }
            for thread in threads { thread.join() }
            for sink in sinks {
                #expect(sink.outcomes.count == 60)
                #expect(sink.repeated == [])
                #expect(sink.outcomes.values.allSatisfy { $0.failure == nil })
            }
            try StoredState(url).check(equals: namespaces)
            #expect(try verify(url).isClean)
            #expect(engines[0].metrics.largeWrites.current > 0)
        }
    }

    // MARK: Support

    private func withLarge(rows: Int, _ body: (PostgresURL, [TestEngine]) throws -> Void) throws {
        try withEngines(2, { settings, _ in settings.largeWriteRows = rows }, body)
    }

    /// Returns whether a session of the database soon waits for a lock.
    private static func waits(_ url: PostgresURL) -> Bool {
        eventually { asks(url, "wait_event_type = 'Lock'") }
    }

    /// Makes the first session that writes the row at `path` stop there for a minute.
    private static func stopOnce(_ url: PostgresURL, at path: String) throws {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        try connection.executeScript(
            """
            create sequence public.stops;
            create function public.stop() returns trigger language plpgsql as $$
            begin
                if new.path = '\(path)' and nextval('public.stops') = 1 then perform pg_sleep(60); end if;
                return new;
            end $$;
            create trigger stop after insert on pathmirror.node for each row execute function public.stop();
            """)
    }

    private static func isStopped(_ url: PostgresURL) -> Bool { asks(url, "wait_event = 'PgSleep'") }

    private static func asks(_ url: PostgresURL, _ condition: String) -> Bool {
        guard let connection = try? PostgresConnection(url) else { return false }
        defer { connection.close() }
        let rows = try? connection.execute(
            "select 1 from pg_stat_activity where datname = current_database() and \(condition)")
        return (rows?.rowCount ?? 0) > 0
    }
}
