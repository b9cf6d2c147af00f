import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks several engines whose transactions contain the same namespaces, and a server without its standby.
@Suite struct SharedTransactionRivalsTests {
    /// All engines lock namespaces in one order, so a wait for locks beyond PostgreSQL's deadlock timeout never ends in
    /// a deadlock.
    @Test func enginesWithTheSameNamespacesDoNotLockOneAnotherOut() throws {
        try withDatabase { url in
            let held = try ["a", "b"].map { name in
                try HeldEngine(url, name: name) { $0.sharedTransactionLockMilliseconds = 15_000 }
            }
            defer { for one in held { one.stop() } }
            var random = SeededGenerator(seed: 3)
            for round in 1...4 {
                // Each round uses new namespaces: those that have met contention go alone for a while.
                let all = try held.map { one in try (0..<16).map { try one.engine.namespace("r\(round)n\($0)") } }
                for namespace in all[0] { #expect(namespace.write(.increment("n"))?.committedSeq == 1) }
                for namespace in all[1] { #expect(namespace.waitFor(1)) }
                for one in held { try one.hold() }
                // One of the engines holds half of the locks when the other one starts.
                let writer = try PostgresConnection(url.withApplicationName("psql"))
                defer { writer.close() }
                try writer.executeScript(
                    "begin; select 1 from pathmirror.namespace where name = 'r\(round)n8' for update")
                let sinks = all.map { submit(.increment("n"), to: $0.shuffled(using: &random)) }
                for one in held { try one.evict() }
                #expect(try held[0].waiting(for: writer, count: 2))
                try writer.executeScript("rollback")
                for sink in sinks.joined() { #expect(sink.outcome(1)?.committedSeq != nil) }
                for pair in zip(all[0], all[1]) {
                    let stored = try StoredState(url, pair.0.name)
                    #expect(stored.root[Path(splitting: "n")] == .int(3))
                    stored.check(equals: [pair.0, pair.1])
                }
            }
            let metrics = held.map(\.engine.metrics)
            #expect(metrics.reduce(0) { $0 + $1.sharedTransactions.current } >= 4)
            let administrator = try PostgresConnection(url)
            defer { administrator.close() }
            let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
            #expect(try administrator.execute(deadlocks).int64(0, 0) == 0)
        }
    }

    /// The server commits the transaction without the standby: no writer is answered before the outcome is certain, and
    /// then each is answered once.
    @Test func committedWithoutTheStandby() throws {
        let server = try LonelyServer()
        let held = try HeldEngine(server.url) { $0.sharedTransactionLockMilliseconds = 20_000 }
        defer { held.stop() }
        let namespaces = try (0..<4).map { try held.engine.namespace("n\($0)") }
        for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq == 1) }
        try held.hold()
        let writer = try PostgresConnection(server.url.withApplicationName("psql"))
        defer { writer.close() }
        try writer.executeScript("begin; select 1 from pathmirror.namespace where name = 'n2' for update")
        let sinks = submit(.increment("n"), to: namespaces)
        try held.evict()
        #expect(try held.waiting(for: writer))
        try server.synchronous(true)
        try server.cancellingWaits {
            try writer.executeScript("rollback")
            #expect(eventually { held.engine.metrics.unknownCommits.current == 4 })
        }
        for sink in sinks { #expect(sink.outcomes.isEmpty) }
        try server.synchronous(false)
        for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2 && sink.repeated.isEmpty) }
        #expect(held.engine.metrics.sharedTransactions.current == 0)
        try checkCounts(server.url, namespaces, counts: 2)
    }
}
