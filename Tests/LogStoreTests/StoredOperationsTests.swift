import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of sessions' onDisconnect operations, as PostgreSQL stores them.
@Suite struct StoredOperationsTests {
    private func stored(
        _ namespace: NamespaceRecord, _ id: String, _ operations: [[Change]], isAdmin: Bool = false, auth: Node = .null,
        origin: Origin? = nil
    ) -> StoredSession {
        StoredSession(
            namespace: namespace.id, namespaceName: namespace.name, id: id, operations: operations, isAdmin: isAdmin,
            auth: auth, origin: origin)
    }

    private func change(_ path: String, _ value: Node) -> Change { Change(path: Path(splitting: path), value: value) }

    /// Saves sessions under a lease that has expired afterwards.
    private func orphan(_ connection: LogConnection, _ sessions: [StoredSession]) throws {
        let lease = try connection.beginLease(Batch.makeID())
        for session in sessions {
            #expect(try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
        }
        try connection.endLease(lease)
    }

    // MARK: Saved operations are read back

    /// Checks that random operations are read back unchanged.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func operationsComeBack(seed: UInt64) throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            var generator = TreeGenerator(seed: seed)
            for round in 0..<20 {
                let operations = (0..<generator.random.below(5)).map { _ in
                    generator.changes(atMost: 4, below: generator.path(maxDepth: 3))
                }
                let session = stored(namespace, "s\(round)", operations)
                #expect(try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
                let found = try #require(try connection.session(namespace.id, "s\(round)"))
                #expect(found.session == session, "seed \(seed), round \(round)")
                #expect(found.claim == SessionClaim(session: "s\(round)", gateway: lease.gateway, save: 1))
            }
        }
    }

    @Test func serverValuesStayUnresolved() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            let operations = [
                [change("n", .serverValue(ServerValue(.increment(.int(1)))))],
                [change("t", .serverValue(ServerValue(.timestamp)))],
                [change("a", .null), change("b/.priority", .int(5))],
            ]
            let session = stored(namespace, "s", operations)
            _ = try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease)
            #expect(try connection.session(namespace.id, "s")?.session.operations == operations)
        }
    }

    @Test func theIdentityComesBack() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            // Claims may contain keys that are invalid in the database.
            let auth = Node(children: [
                (Key("uid"), .string("ann \u{0} é")), (Key("https://claims/x.y"), .bool(true)),
                (Key("token"), Node(children: [(Key("exp"), .int(1)), (Key(""), .double(0.5))])),
            ])
            let origins = [
                nil, Origin(uid: "ann", isAdmin: false, isOverride: false, via: .ws, address: "192.0.2.1"),
                Origin(uid: nil, isAdmin: true, isOverride: true, via: .ws, address: nil),
            ]
            for (index, origin) in origins.enumerated() {
                for isAdmin in [true, false] {
                    let id = "s\(index) \(isAdmin)"
                    let session = stored(
                        namespace, id, [[change("a", .int(1))]], isAdmin: isAdmin, auth: auth, origin: origin)
                    _ = try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease)
                    #expect(try connection.session(namespace.id, id)?.session == session)
                }
            }
        }
    }

    @Test func namespacesAreApart() throws {
        try withSession { connection in
            let (first, second) = (try connection.make("first"), try connection.make("second"))
            let lease = try connection.beginLease(Batch.makeID())
            for (namespace, value) in [(first, 1), (second, 2)] as [(NamespaceRecord, Int64)] {
                let session = stored(namespace, "same", [[change("n", .int(value))]])
                #expect(try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
            }
            #expect(try connection.session(first.id, "same")?.session.operations == [[change("n", .int(1))]])
            #expect(try connection.session(second.id, "same")?.session.namespaceName == "second")
            try connection.forgetSession(first.id, SessionClaim(session: "same", gateway: lease.gateway, save: nil))
            #expect(try connection.session(first.id, "same") == nil)
            #expect(try connection.session(second.id, "same") != nil)
        }
    }

    // MARK: Saves

    /// Checks that only the first save creates the row. Later saves only update it.
    @Test func aSaveThatIsNotTheFirstNeedsARow() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            let session = stored(namespace, "s", [])
            #expect(try connection.saveSession(SessionSave(session, number: 2, isFirst: false), lease) == .ended)
            #expect(try connection.session(namespace.id, "s") == nil)
            #expect(try connection.savedNumber(namespace.id, "s", gateway: lease.gateway) == nil)
        }
    }

    @Test func anotherGatewaysRowIsNotTaken() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let (lease, other) = (try connection.beginLease(Batch.makeID()), try connection.beginLease(Batch.makeID()))
            let session = stored(namespace, "s", [[change("n", .int(1))]])
            _ = try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease)
            let mine = stored(namespace, "s", [[change("n", .int(2))]])
            #expect(try connection.saveSession(SessionSave(mine, number: 1, isFirst: true), other) == .ended)
            #expect(try connection.saveSession(SessionSave(mine, number: 2, isFirst: false), other) == .ended)
            #expect(try connection.savedNumber(namespace.id, "s", gateway: other.gateway) == nil)
            #expect(try connection.session(namespace.id, "s")?.session == session)
        }
    }

    @Test func savesAreOrderedByTheirNumbers() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            var newest: Int64 = 0
            var random = SeededGenerator(seed: 5)
            for _ in 0..<200 {
                let number = Int64(random.below(300) + 1)
                let session = stored(namespace, "s", [[change("n", .int(number))]])
                let result = try connection.saveSession(
                    SessionSave(session, number: number, isFirst: newest == 0), lease)
                #expect(result == (number > newest ? .saved : .ended))
                newest = max(newest, number)
                #expect(try connection.savedNumber(namespace.id, "s", gateway: lease.gateway) == newest)
            }
        }
    }

    // MARK: Orphans

    @Test func onlySessionsWithoutLeaseAreOrphans() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            let living = stored(namespace, "living", [[change("n", .int(1))]])
            _ = try connection.saveSession(SessionSave(living, number: 1, isFirst: true), lease)
            #expect(try connection.orphanedSessions(limit: 10).isEmpty)
            let dead = stored(namespace, "dead", [[change("n", .int(2))]])
            try orphan(connection, [dead])
            #expect(try connection.orphanedSessions(limit: 10).map(\.session) == [dead])
            try connection.endLease(lease)
            #expect(try connection.orphanedSessions(limit: 10).map(\.session.id) == ["dead", "living"])
        }
    }

    @Test func orphansAreReadSomeAtATime() throws {
        try withSession { connection in
            let namespace = try connection.make()
            try orphan(connection, (0..<10).map { stored(namespace, "s\($0)", [[change("n", .int(1))]]) })
            #expect(try connection.orphanedSessions(limit: 4).map(\.session.id) == ["s0", "s1", "s2", "s3"])
            for orphan in try connection.orphanedSessions(limit: 4) {
                try connection.forgetSession(namespace.id, orphan.claim)
            }
            #expect(
                try connection.orphanedSessions(limit: 100).map(\.session.id) == ["s4", "s5", "s6", "s7", "s8", "s9"])
        }
    }

    /// Checks that a row is removed only if it is unchanged since it was read.
    @Test func aClaimNamesOneSaveOfOneGateway() throws {
        try withSession { connection in
            let namespace = try connection.make()
            let lease = try connection.beginLease(Batch.makeID())
            let session = stored(namespace, "s", [])
            _ = try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease)
            let wrong = [
                SessionClaim(session: "s", gateway: lease.gateway, save: 2),
                SessionClaim(session: "s", gateway: Batch.makeID(), save: 1),
                SessionClaim(session: "s", gateway: Batch.makeID(), save: nil),
                SessionClaim(session: "other", gateway: lease.gateway, save: nil),
            ]
            for claim in wrong {
                try connection.forgetSession(namespace.id, claim)
                #expect(try connection.session(namespace.id, "s") != nil)
            }
            try connection.forgetSession(namespace.id, SessionClaim(session: "s", gateway: lease.gateway, save: 1))
            #expect(try connection.session(namespace.id, "s") == nil)
        }
    }
}
