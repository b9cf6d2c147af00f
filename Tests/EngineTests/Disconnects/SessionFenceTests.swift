import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that the operations of ended sessions are executed once, and refused ones never, when connections are cut,
/// messages are late or gateways are taken for dead.
@Suite struct SessionFenceTests {
    /// Sets frequent heartbeats, with an expiry that no busy machine reaches.
    private static func quick(_ settings: inout EngineSettings, _: inout LogConnection.Settings) {
        settings.pollMilliseconds = 50
        settings.heartbeatMilliseconds = 20
        settings.leaseExpiryMilliseconds = 60_000
    }

    /// Sets frequent heartbeats and a short expiry, for tests with a dead gateway and no other that may be taken for
    /// dead.
    private static func endingTheDead(_ settings: inout EngineSettings, _ connection: inout LogConnection.Settings) {
        quick(&settings, &connection)
        settings.leaseExpiryMilliseconds = 400
    }

    /// A session with the state that its gateway would keep.
    private struct Session {
        let engine: TestEngine
        let namespace: LiveNamespace
        let id: String
        let lease: LeaseNumber
        var saves: Int64 = 0
        var isKept = false

        init(_ engine: TestEngine, _ id: String) throws {
            self.engine = engine
            self.id = id
            namespace = try engine.namespace()
            lease = engine.engine.leases.current
        }

        func operations(_ paths: [String]) -> DisconnectOperations {
            let operations = paths.map {
                [Change(path: Path(splitting: $0), value: .serverValue(ServerValue(.increment(.int(1)))))]
            }
            return DisconnectOperations(
                id: id, namespace: namespace, lease: lease, operations: operations, auth: .admin, origin: nil)
        }

        /// Begins to save; the condition receives the outcome.
        mutating func save(_ paths: String...) -> Condition<SaveOutcome?> {
            let outcome = Condition<SaveOutcome?>(nil)
            saves += 1
            engine.engine.disconnects.save(operations(paths), number: saves, isFirst: !isKept) { result in
                outcome.broadcast { $0 = result }
            }
            return outcome
        }

        func end(_ paths: String...) -> Condition<Bool?> {
            let isDone = Condition<Bool?>(nil)
            engine.engine.disconnects.execute(operations(paths)) { isDone.broadcast { $0 = true } }
            return isDone
        }
    }

    private func counts(_ counts: [String: Int64]) -> Node {
        counts.reduce(Node.null) { $0.replacing(Path(splitting: $1.key), with: .int($1.value)) }
    }

    private func row(_ url: PostgresURL, _ id: String) throws -> Bool {
        try rows(url, "select 1 from pathmirror.session where session_id = '\(id)'") > 0
    }

    private func rows(_ url: PostgresURL, _ query: String) throws -> Int {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        return try connection.execute(query).rowCount
    }

    private func execute(_ url: PostgresURL, _ script: String) throws {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        try connection.executeScript(script)
    }

    private func withProxy(
        _ body: (PostgresURL, CuttingProxy, TestEngine) throws -> Void
    ) throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url, Self.quick)
            defer { engine.stop() }
            try body(url, proxy, engine)
        }
    }

    // MARK: Late saves

    /// The connection is lost with a save in flight, which then arrives late: it was refused, so it is never executed.
    @Test func aRefusedSaveThatComesLateIsNotTaken() throws {
        try withProxy { url, proxy, engine in
            var session = try Session(engine, "late")
            #expect(session.save("kept").wait(seconds: 20) == .saved)
            session.isKept = true
            proxy.cutNext(.batchArrivesLate, at: Array("save_session".utf8))
            #expect(session.save("kept", "refused").wait(seconds: 20) == .refused)
            #expect(proxy.heldCount == 1)
            proxy.releaseHeld()
            // The client declares the session over: only the operations of accepted saves are executed.
            let adopted = Condition<Bool?>(nil)
            engine.engine.disconnects.takeOver("late", in: session.namespace) { adopted.broadcast { $0 = true } }
            #expect(adopted.wait(seconds: 20) == true)
            #expect(session.namespace.snapshot.root == counts(["kept": 1]))
            #expect(try !row(url, "late"))
        }
    }

    /// The first save creates the row. If it is unknown whether another gateway has executed the row since, the session
    /// is over.
    @Test func aFirstSaveThatComesLateIsNotTaken() throws {
        try withProxy { url, proxy, engine in
            var session = try Session(engine, "first")
            _ = session.namespace
            // The connection is open before it is cut.
            #expect(try eventually { try rows(url, "select 1 from pathmirror.gateway") == 1 })
            proxy.cutNext(.batchArrivesLate, at: Array("save_session".utf8))
            #expect(session.save("n").wait(seconds: 20) == .over)
            proxy.releaseHeld()
            #expect(try !row(url, "first"))
            #expect(session.end("n").wait(seconds: 20) == true)
            #expect(session.namespace.snapshot.root == .null)
        }
    }

    /// The save arrived, and only its answer was lost: it is not refused.
    @Test func aSaveWhoseAnswerWasLostIsSaved() throws {
        try withProxy { url, proxy, engine in
            var session = try Session(engine, "answered")
            proxy.cutNext(.batchArrivesLate, at: Array("save_session".utf8))
            proxy.releaseHeld(before: "set connection = connection + 1", occurrence: 1)
            #expect(session.save("n").wait(seconds: 20) == .saved)
            #expect(proxy.cutCount == 1)
            #expect(session.end("n").wait(seconds: 20) == true)
            #expect(session.namespace.snapshot.root == counts(["n": 1]))
            #expect(try !row(url, "answered"))
        }
    }

    /// While the database is unavailable the outcome is unknown; a save that was not sent is refused at once.
    @Test func whatIsNotSentIsRefused() throws {
        try withProxy { url, proxy, engine in
            var session = try Session(engine, "away")
            #expect(session.save("n").wait(seconds: 20) == .saved)
            session.isKept = true
            proxy.setDown(true)
            #expect(session.save("n", "m").wait(seconds: 20) == .refused)
            proxy.setDown(false)
            #expect(session.end("n").wait(seconds: 20) == true)
            #expect(session.namespace.snapshot.root == counts(["n": 1]))
        }
    }

    // MARK: Leases

    /// The gateway's lease has expired: it begins another, under another id, and drops the saves that are still queued.
    @Test func aGatewayThatLostItsLeaseThrowsSavesAndEndsAway() throws {
        try withEngines(1, Self.quick) { url, engines in
            let engine = engines[0]
            let isNotified = Condition<Bool?>(nil)
            engine.engine.leases.onExpired { isNotified.broadcast { $0 = true } }
            var session = try Session(engine, "old")
            #expect(session.save("n").wait(seconds: 20) == .saved)
            session.isKept = true
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            // The thread is blocked at its next save, with another save and an end queued after it; meanwhile another
            // gateway executes the first session.
            try connection.executeScript("begin; lock table pathmirror.session in exclusive mode")
            var kept = try Session(engine, "kept back")
            let first = kept.save("m")
            #expect(
                try eventually {
                    try rows(
                        url,
                        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%save_session%'")
                        == 1
                })
            let second = session.save("n", "again")
            let end = session.end("n", "again")
            try connection.executeScript(
                """
                delete from pathmirror.session where session_id = 'old';
                commit
                """)
            #expect(first.wait(seconds: 20) == .saved)
            #expect(second.wait(seconds: 20) == .over)
            #expect(end.wait(seconds: 20) == true)
            #expect(try !row(url, "old"))
            // The lease itself is removed next.
            try execute(url, "delete from pathmirror.gateway")
            #expect(isNotified.wait(seconds: 20) == true)
            #expect(engine.engine.leases.current != session.lease)
            kept.isKept = true
            #expect(kept.save("late").wait(seconds: 20) == .over)
            #expect(kept.end("late").wait(seconds: 20) == true)
            // The session's operations were orphaned: they are executed once, as they were saved.
            #expect(eventually { session.namespace.snapshot.root == counts(["m": 1]) })
            #expect(try eventually { try rows(url, "select 1 from pathmirror.session") == 0 })
            var fresh = try Session(engine, "fresh")
            #expect(fresh.save("x").wait(seconds: 20) == .saved)
            #expect(fresh.end("x").wait(seconds: 20) == true)
            #expect(session.namespace.snapshot.root == counts(["m": 1, "x": 1]))
        }
    }

    /// A session that its client ended on another gateway is over on this one.
    @Test func anAdoptedSessionIsOver() throws {
        try withEngines(2, Self.quick) { url, engines in
            var session = try Session(engines[0], "adopted")
            #expect(session.save("n").wait(seconds: 20) == .saved)
            session.isKept = true
            let other = try engines[1].namespace()
            let isDone = Condition<Bool?>(nil)
            engines[1].engine.disconnects.takeOver("adopted", in: other) { isDone.broadcast { $0 = true } }
            #expect(isDone.wait(seconds: 20) == true)
            #expect(other.snapshot.root == counts(["n": 1]))
            #expect(session.save("n", "m").wait(seconds: 20) == .over)
            #expect(session.end("n", "m").wait(seconds: 20) == true)
            #expect(try !row(url, "adopted"))
            #expect(session.namespace.write(.increment("x")) != nil)
            #expect(session.namespace.snapshot.root == counts(["n": 1, "x": 1]))
        }
    }

    // MARK: Clocks

    /// PostgreSQL's clock jumps: by its times, every gateway was last seen an hour ago at every check.
    @Test func aClockThatJumpsForwardEndsNoLease() throws {
        try withEngines(2, Self.quick) { url, engines in
            let isNotified = Condition(0)
            for engine in engines { engine.engine.leases.onExpired { isNotified.broadcast { $0 += 1 } } }
            var session = try Session(engines[0], "lives")
            #expect(session.save("n").wait(seconds: 20) == .saved)
            #expect(try eventually { try rows(url, "select 1 from pathmirror.gateway") == 2 })
            try execute(url, Self.clock("- interval '1 hour'"))
            // Both gateways check many times: their heartbeats show how often.
            #expect(try eventually { try rows(url, "select 1 from pathmirror.gateway where beat > 100") == 2 })
            #expect(isNotified.withLock { $0 } == 0)
            #expect(try row(url, "lives"))
            #expect(session.namespace.snapshot.root == .null)
        }
    }

    /// The clock is put back: dead gateways were last seen in the future.
    @Test func aClockThatIsPutBackKeepsNoLeaseAlive() throws {
        try withEngines(1, Self.endingTheDead) { url, engines in
            let namespace = try engines[0].namespace()
            let session = try LogConnection(url)
            defer { session.close() }
            let dead = try session.beginLease(Batch.makeID())
            let operations = [[Change(path: Path(splitting: "n"), value: .int(1))]]
            let stored = StoredSession(
                namespace: namespace.id, namespaceName: namespace.name, id: "of the dead", operations: operations,
                isAdmin: true,
                auth: .null, origin: nil)
            #expect(try session.saveSession(SessionSave(stored, number: 1, isFirst: true), dead) == .saved)
            try execute(url, "update pathmirror.gateway set seen_at = now() + interval '1 hour'")
            #expect(eventually { namespace.snapshot.root == counts(["n": 1]) })
            #expect(try eventually { try rows(url, "select 1 from pathmirror.gateway") == 1 })
        }
    }

    private static func clock(_ shift: String) -> String {
        """
        create function pathmirror.wrong_clock() returns trigger language plpgsql as $$
        begin new.seen_at := new.seen_at \(shift); return new; end $$;
        create trigger wrong_clock before insert or update on pathmirror.gateway
            for each row execute function pathmirror.wrong_clock();
        """
    }
}

extension Condition {
    /// Waits until the value is not nil, and returns it. Returns nil after the timeout.
    fileprivate func wait<Result>(seconds: Int64) -> Result? where Value == Result? {
        wait(milliseconds: seconds * 1_000) { $0 }
    }
}
