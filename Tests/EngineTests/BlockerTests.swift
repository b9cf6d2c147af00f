import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks sessions that hold the head's lock and receive nothing from their clients.
@Suite struct BlockerTests {
    /// Checks a gateway that vanishes in the middle of a batch: PostgreSQL waits for the rest, and keeps the lock.
    @Test(arguments: [40, 120, 200, 700])
    func gatewayThatVanishedInsideABatch(bytes: Int) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let far = try TestEngine(proxy.url)
            defer { far.stop() }
            let near = try TestEngine(url)
            defer { near.stop() }
            let vanishing = try far.namespace()
            let living = try near.namespace()
            #expect(vanishing.write(.increment("n"))?.committedSeq == 1)
            proxy.cutNext(.silenceInsideBatch(bytes: bytes))
            let sink = CollectingSink()
            vanishing.submit(.increment("n"), to: sink, token: 1)
            #expect(eventually { proxy.heldCount == 1 })
            for _ in 0..<3 { #expect(living.write(.increment("m"))?.committedSeq != nil) }
            #expect(sink.outcome(1)?.committedSeq != nil)
            try StoredState(url).check(equals: [vanishing, living])
            #expect(living.snapshot.root == Node(children: [(Key("m"), .int(3)), (Key("n"), .int(2))]))
        }
    }

    @Test func holderThatSaysNothingIsEnded() throws {
        try withHolder(application: "pathmirror committer 9") { namespace, engine, holder in
            #expect(namespace.write(.set("a", .int(1)))?.committedSeq == 1)
            #expect(engine.metrics.endedBlockers.current == 1)
            #expect(throws: PostgresError.self) { try holder.executeScript("select 1") }
        }
    }

    /// A session that belongs to no gateway is left alone: the write fails at its deadline.
    @Test func strangersLockIsWaitedFor() throws {
        try withHolder(application: "psql", deadlineMilliseconds: 5_000) { namespace, engine, holder in
            #expect(namespace.write(.set("a", .int(1)))?.failure != nil)
            #expect(engine.metrics.endedBlockers.current == 0)
            try holder.executeScript("rollback")
            #expect(namespace.write(.set("a", .int(1)))?.committedSeq == 1)
        }
    }

    /// Runs the body with a session that holds the head's lock and is idle.
    private func withHolder(
        application: String, deadlineMilliseconds: Int64 = 10_000,
        _ body: (LiveNamespace, TestEngine, PostgresConnection) throws -> Void
    ) throws {
        try withEngines(1) { settings, _ in
            settings.commitDeadlineMilliseconds = deadlineMilliseconds
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let holder = try PostgresConnection(url.withApplicationName(application))
            defer { holder.close() }
            try holder.executeScript("begin; select head from pathmirror.namespace for update")
            try body(namespace, engines[0], holder)
        }
    }
}
