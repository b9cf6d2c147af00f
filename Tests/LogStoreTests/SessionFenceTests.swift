import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of which saves of sessions PostgreSQL accepts and which it refuses.
@Suite struct SessionFenceTests {
    private func save(_ number: Int64, _ value: Int64, isFirst: Bool = false, of namespace: NamespaceRecord)
        -> SessionSave
    {
        SessionSave(
            StoredSession(
                namespace: namespace.id, namespaceName: namespace.name, id: "session",
                operations: [[Change(path: Path(splitting: "n"), value: .int(value))]], isAdmin: true, auth: .null,
                origin: nil),
            number: number, isFirst: isFirst)
    }

    private func value(_ session: LogConnection, _ namespace: NamespaceRecord) throws -> Node? {
        try session.session(namespace.id, "session")?.session.operations.first?.first?.value
    }

    private func begin(_ session: LogConnection) throws -> (NamespaceRecord, GatewayLease) {
        (try session.make(), try session.beginLease(Batch.makeID()))
    }

    @Test func savesFollowOneAnother() throws {
        try withSession { session in
            let (namespace, lease) = try begin(session)
            #expect(try session.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved)
            #expect(try session.saveSession(save(2, 2, of: namespace), lease) == .saved)
            #expect(try value(session, namespace) == .int(2))
            #expect(try session.savedNumber(namespace.id, "session", gateway: lease.gateway) == 2)
            // A save that arrives after a newer one has no effect.
            #expect(try session.saveSession(save(1, 3, of: namespace), lease) == .ended)
            #expect(try value(session, namespace) == .int(2))
        }
    }

    /// Checks that no save is accepted under a lease that another gateway has ended.
    @Test(arguments: [true, false])
    func nothingIsTakenOfALeaseThatIsOver(isFirst: Bool) throws {
        try withSession { session in
            let (namespace, lease) = try begin(session)
            let other = try session.beginLease(Batch.makeID())
            if !isFirst { #expect(try session.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved) }
            let heartbeat = try #require(try session.heartbeats(otherThan: other).first)
            #expect(try session.endLease(of: heartbeat))
            #expect(try session.saveSession(save(2, 2, isFirst: isFirst, of: namespace), lease) == .lost)
            #expect(try value(session, namespace) == (isFirst ? nil : .int(1)))
            #expect(try session.heartbeat(lease) == nil)
            #expect(try session.takeOver(lease) == nil)
            #expect(try session.orphanedSessions(limit: 10).count == (isFirst ? 0 : 1))
        }
    }

    @Test func aSignOfLifeKeepsTheLease() throws {
        try withSession { session in
            let (_, lease) = try begin(session)
            let other = try session.beginLease(Batch.makeID())
            let heartbeat = try #require(try session.heartbeats(otherThan: other).first)
            #expect(try session.heartbeat(lease) != nil)
            #expect(try !session.endLease(of: heartbeat))
            #expect(try session.heartbeat(lease) != nil)
        }
    }

    /// Checks that late saves of a lost connection are refused once the next connection has taken over.
    @Test(arguments: [true, false])
    func nothingIsTakenOfAnEarlierConnection(isFirst: Bool) throws {
        try withSession { session in
            let (namespace, lease) = try begin(session)
            if !isFirst { #expect(try session.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved) }
            let newer = try #require(try session.takeOver(lease))
            #expect(try session.saveSession(save(2, 2, isFirst: isFirst, of: namespace), lease) == .lost)
            #expect(try value(session, namespace) == (isFirst ? nil : .int(1)))
            #expect(try session.saveSession(save(2, 3, isFirst: isFirst, of: namespace), newer) == .saved)
            #expect(try value(session, namespace) == .int(3))
        }
    }

    /// Checks that taking over waits for a save in progress on the previous connection.
    @Test func takingOverWaitsForWritesInFlight() throws {
        try withDatabase { url in
            let early = try LogConnection(url)
            let late = try LogConnection(url)
            defer {
                early.close()
                late.close()
            }
            let (namespace, lease) = try begin(early)
            try early.sql.executeScript("begin")
            #expect(try early.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved)
            try late.sql.executeScript("set lock_timeout = '100ms'")
            #expect(throws: LogStoreError.self) { try late.takeOver(lease) }
            try early.sql.executeScript("commit")
            #expect(try late.takeOver(lease)?.connection == 2)
            #expect(try value(late, namespace) == .int(1))
        }
    }

    /// Checks that a save does not insert a removed row again: its operations have been executed.
    @Test func aRowThatIsGoneStaysGone() throws {
        try withSession { session in
            let (namespace, lease) = try begin(session)
            #expect(try session.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved)
            let found = try #require(try session.session(namespace.id, "session"))
            try session.forgetSession(namespace.id, found.claim)
            #expect(try session.saveSession(save(2, 2, of: namespace), lease) == .ended)
            #expect(try session.session(namespace.id, "session") == nil)
        }
    }

    /// Checks that a claim applies only to the save that was read: a later save must not be deleted with it.
    @Test func aClaimIsOfOneSave() throws {
        try withSession { session in
            let (namespace, lease) = try begin(session)
            #expect(try session.saveSession(save(1, 1, isFirst: true, of: namespace), lease) == .saved)
            let read = try #require(try session.session(namespace.id, "session"))
            #expect(read.claim == SessionClaim(session: "session", gateway: lease.gateway, save: 1))
            #expect(try session.saveSession(save(2, 2, of: namespace), lease) == .saved)
            var writer = BatchWriter(namespace)
            let empty = writer.set("n", .int(1))
            let batch = Batch(
                namespace: namespace.id, expectedHead: empty.expectedHead, id: empty.id, records: empty.records,
                rows: empty.rows, claims: [read.claim])
            #expect(try session.commit(batch) == .alreadyClaimed)
            try session.forgetSession(namespace.id, read.claim)
            #expect(try value(session, namespace) == .int(2))
            let own = SessionClaim(session: "session", gateway: lease.gateway, save: nil)
            let again = Batch(
                namespace: namespace.id, expectedHead: empty.expectedHead, id: Batch.makeID(), records: empty.records,
                rows: empty.rows, claims: [own])
            #expect(try session.commit(again) == .committed)
            #expect(try session.session(namespace.id, "session") == nil)
        }
    }
}
