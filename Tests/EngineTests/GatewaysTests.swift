import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks several engines on one database, as several gateways use it: invariants 1 to 4 of the design.
@Suite struct GatewaysTests {
    /// The log's replay, both engines' trees and the stored rows are one tree after random writes from several threads
    /// through two engines.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func randomWrites(seed: UInt64) throws {
        try withEngines(2) { settings, connection in
            settings.maxBatchWrites = 20
            connection.copyThreshold = 30
        } _: { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let threads = 4
            let each = 150
            let sinks = (0..<threads).map { _ in CollectingSink() }
            let writers = (0..<threads).map { thread in
                let namespace = namespaces[thread % 2]
                let sink = sinks[thread]
                return Thread(name: "writer") {
                    var generator = TreeGenerator(seed: seed &* 1_000 &+ UInt64(thread))
                    for token in 0..<UInt64(each) {
                        namespace.submit(generator.write(), to: sink, token: token)
                        if generator.random.oneIn(5) { _ = sink.outcome(token) }
                    }
                }
            }
            for writer in writers { writer.join() }
            var seqs: [Int64] = []
            for sink in sinks {
                let outcomes = try #require(sink.all(each))
                #expect(sink.repeated.isEmpty)
                for outcome in outcomes.values {
                    switch outcome {
                    case .committed(let seq, let changes) where !changes.isEmpty: seqs.append(seq)
                    case .committed, .refused: break
                    default: Issue.record("a write ended in \(outcome)")
                    }
                }
            }
            let stored = try StoredState(url)
            // Every acknowledged write has exactly one seq, and there are no others.
            #expect(seqs.sorted() == stored.entries.map(\.seq))
            stored.check(equals: namespaces)
            #expect(try verify(url).isClean)
        }
    }

    @Test func incrementsAndComparesAcrossEnginesAreExact() throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let clients = 8
            let each = 60
            let failures = MutexBox<[String]>([])
            let threads = (0..<clients).map { client in
                let namespace = namespaces[client % 2]
                return Thread(name: "client") {
                    for _ in 0..<each {
                        if namespace.write(.increment("sum"))?.committedSeq == nil {
                            failures.withLock { $0.append("an increment failed") }
                        }
                        if !Self.addByCompare(namespace) { failures.withLock { $0.append("a compare-and-set failed") } }
                    }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [])
            let stored = try StoredState(url)
            #expect(stored.root[Path(splitting: "sum")] == .int(Int64(clients * each)))
            #expect(stored.root[Path(splitting: "cas")] == .int(Int64(clients * each)))
            #expect(stored.head == Int64(clients * each * 2))
            stored.check(equals: namespaces)
        }
    }

    /// Adds one by a write that names the value to replace, and repeats it until it succeeds.
    private static func addByCompare(_ namespace: LiveNamespace) -> Bool {
        var current = namespace.snapshot.root[Path(splitting: "cas")]
        for _ in 0..<10_000 {
            let next: Int64 = if case .int(let value) = current { value + 1 } else { 1 }
            switch namespace.write(.set("cas", .int(next), expecting: current.hash)) {
            case .committed: return true
            case .preconditionFailed(_, let actual?): current = actual
            default: return false
            }
        }
        return false
    }

    @Test func othersWritesAreAnnounced() throws {
        try withEngines(2) { url, engines in
            let writer = try engines[0].namespace()
            let follower = try engines[1].namespace()
            // The follower's tail may not listen yet. Once it does, only announcements can notify it.
            var seq: Int64 = 0
            #expect(
                eventually {
                    seq = writer.write(.increment("warm"))?.committedSeq ?? seq
                    return follower.snapshot.seq > 0
                })
            let listener = RecordingListener()
            let path = Path(splitting: "a")
            listener.started(follower.subscribe(listener, at: path), at: path)
            for value in 0..<20 as Range<Int64> { _ = writer.write(.set("a/b", .int(value))) }
            #expect(listener.wait { $0.root[Path(splitting: "a/b")] == .int(19) } != nil)
            #expect(listener.now.mistakes == [])
            #expect(listener.now.seqs.count == 20)
            try StoredState(url).check(equals: [writer, follower])
        }
    }

    /// Lost announcements (here the server's function does nothing) only delay the follower.
    @Test func lostAnnouncementsAreHarmless() throws {
        try withDatabase { url in
            try Self.silence(url)
            try withSilentEngines(url, pollMilliseconds: 20) { namespaces in
                for value in 0..<20 as Range<Int64> {
                    #expect(namespaces[0].write(.set("a/\(value)", .int(value)))?.committedSeq != nil)
                }
                #expect(eventually { namespaces[1].snapshot.seq == 20 })
                try StoredState(url).check(equals: namespaces)
            }
        }
    }

    /// A refusal is judged against the newest state, too: an engine that missed the announcement must check.
    @Test func compareAndSetOnAStaleEngine() throws {
        try withDatabase { url in
            try Self.silence(url)
            try withSilentEngines(url, pollMilliseconds: 600_000) { namespaces in
                // Both engines have loaded the empty tree; the second receives no notice of the first one's writes.
                #expect(namespaces[0].write(.set("x", .int(1)))?.committedSeq == 1)
                #expect(namespaces[0].write(.set("x", .int(2)))?.committedSeq == 2)
                #expect(namespaces[1].snapshot.seq == 0)
                #expect(namespaces[1].write(.set("x", .int(3), expecting: Node.int(2).hash))?.committedSeq == 3)
                #expect(namespaces[0].write(.set("x", .int(4)))?.committedSeq == 4)
                guard
                    case .preconditionFailed(let seq, let current)? =
                        namespaces[1].write(.set("x", .int(9), expecting: Node.int(3).hash))
                else { return #expect(Bool(false), "a compare-and-set against an old value must fail") }
                #expect(seq == 4)
                #expect(current == .int(4))
                try StoredState(url).check(equals: namespaces)
            }
        }
    }

    /// Makes the announcements of new sessions go nowhere.
    private static func silence(_ url: PostgresURL) throws {
        let connection = try PostgresConnection(url)
        try connection.executeScript(
            """
            create schema silence;
            create function silence.pg_notify(text, text) returns void language sql as 'select';
            do $$ begin
                execute format('alter database %I set search_path = silence, pg_catalog, public', current_database());
            end $$;
            """)
        connection.close()
    }

    private func withSilentEngines(
        _ url: PostgresURL, pollMilliseconds: Int, _ body: ([LiveNamespace]) throws -> Void
    ) throws {
        var engines: [TestEngine] = []
        defer { for engine in engines { engine.stop() } }
        for _ in 0..<2 {
            engines.append(try TestEngine(url) { settings, _ in settings.pollMilliseconds = Int64(pollMilliseconds) })
        }
        try body(try engines.map { try $0.namespace() })
    }
}
