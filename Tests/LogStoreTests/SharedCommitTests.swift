import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Tests of transactions with batches of several namespaces: the rows that they write, and the state that they leave.
@Suite struct SharedCommitTests {
    /// A copy of a batch with additional fields.
    private func batch(
        _ batch: Batch, after expectedBatch: [UInt8]? = nil, claims: [SessionClaim] = [], origin: Origin? = nil
    ) -> Batch {
        Batch(
            namespace: batch.namespace, expectedHead: batch.expectedHead, expectedBatch: expectedBatch, id: batch.id,
            records: batch.records.map {
                Batch.Record(operation: $0.operation, path: $0.path, changes: $0.changes, origin: origin)
            }, rows: batch.rows, claims: claims)
    }

    private func write(_ connection: LogConnection, _ batches: [Batch]) throws {
        #expect(try connection.withoutPartition(batches).isEmpty)
        let times = try connection.commitJointly(batches, lockMilliseconds: 1_000)
        #expect(times.count == batches.count && times.allSatisfy { $0 > 0 })
        #expect(!connection.sql.isInTransaction)
    }

    /// Returns the error of a write. Checks that no rows were written.
    private func refusal(_ connection: LogConnection, _ batches: [Batch], lock: Int64 = 1_000) throws -> LogStoreError?
    {
        _ = try connection.withoutPartition(batches)
        let error = #expect(throws: LogStoreError.self) {
            try connection.commitJointly(batches, lockMilliseconds: lock)
        }
        #expect(connection.isOpen && !connection.sql.isInTransaction)
        for batch in batches { #expect(try connection.namespace(id: batch.namespace)?.head == batch.expectedHead) }
        return error
    }

    private func state(_ error: LogStoreError?) -> String? {
        if case .database(let error)? = error { error.sqlState } else { nil }
    }

    /// All rows of a namespace in the log and the tree, without times and batch ids.
    private func rows(_ connection: LogConnection, _ namespace: Int64) throws -> [String] {
        let log = try connection.sql.execute(
            """
            select concat_ws(' ', seq, op, path, changes::text, coalesce(origin::text, 'none')) from pathmirror.log
            where namespace_id = $1 order by seq
            """, [.int8(namespace)])
        let tree = try connection.sql.execute(
            """
            select concat_ws(' ', path, coalesce(rest, 'none'), value::text, version) from pathmirror.node
            where namespace_id = $1 order by path
            """, [.int8(namespace)])
        return try (0..<log.rowCount).map { try log.string($0, 0) }
            + (0..<tree.rowCount).map { try tree.string($0, 0) }
    }

    /// Checks that values, removals, long paths, priorities and origins give the same rows as in separate transactions.
    @Test func eachIsWrittenAsItWouldBeAlone() throws {
        try withSession { connection in
            let writes: [[[Change]]] = [
                [
                    [Change(path: Path(splitting: "a"), value: .int(1))],
                    [Change(path: longPath(1), value: .string("long"))],
                ],
                [
                    [
                        Change(path: longPath(2), value: .bool(true)),
                        Change(path: Path(splitting: "b/c"), value: .int(2)),
                    ],
                    [Change(path: Path(splitting: "a"), value: .string("x").withPriority(.int(5)))],
                ],
                [[Change(path: longPath(1), value: .null)], [Change(path: Path(splitting: "b"), value: .null)]],
                [[Change(path: Path(splitting: "a"), value: .null)]],
            ]
            let origins = [
                Origin(uid: "eve", isAdmin: false, via: .rest, address: "192.0.2.1"), nil,
                Origin(uid: nil, isAdmin: true, via: .ws, address: nil),
            ]
            var alone = try (0..<3).map { BatchWriter(try connection.make("alone\($0)")) }
            var together = try (0..<3).map { BatchWriter(try connection.make("together\($0)")) }
            for round in writes.indices {
                // Each namespace starts at a different index.
                let mine = (0..<3).map { writes[(round + $0) % writes.count] }
                for number in 0..<3 {
                    let one = batch(alone[number].batch(mine[number]), origin: origins[number])
                    #expect(try connection.commit(one) == .committed)
                }
                try write(
                    connection,
                    (0..<3).map { batch(together[$0].batch(mine[$0]), origin: origins[$0]) })
                for number in 0..<3 {
                    #expect(
                        try rows(connection, together[number].namespace) == rows(connection, alone[number].namespace))
                    #expect(try connection.loadTree(together[number].namespace).root == together[number].root)
                }
            }
        }
    }

    /// Checks that no batch is written if one namespace's head has the expected seq but another batch.
    @Test func aHeadOfAnotherBatch() throws {
        try withSession { connection in
            var writers = try (0..<3).map { BatchWriter(try connection.make("n\($0)")) }
            let first = writers.indices.map { writers[$0].set("a", .int(1)) }
            try write(connection, first)
            let second = writers.indices.map { number in
                batch(writers[number].set("a", .int(2)), after: number == 1 ? first[0].id : first[number].id)
            }
            #expect(state(try refusal(connection, second)) == "PM001")
            try write(connection, zip(second, first).map { batch($0, after: $1.id) })
        }
    }

    /// Checks that a session's row is removed in the same transaction as the batches, or not at all.
    @Test func claimsAmongOthers() throws {
        try withSession { connection in
            let records = try (0..<3).map { try connection.make("n\($0)") }
            var writers = records.map { BatchWriter($0) }
            let lease = try connection.beginLease(Batch.makeID())
            let session = StoredSession(
                namespace: records[1].id, namespaceName: "n1", id: "session",
                operations: [[Change(path: Path(splitting: "n"), value: .int(1))]], isAdmin: true, auth: .null,
                origin: nil)
            #expect(try connection.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
            let claim = try #require(try connection.session(records[1].id, "session")?.claim)
            func batches() -> [Batch] {
                writers.indices.map { batch(writers[$0].set("n", .int(1)), claims: $0 == 1 ? [claim] : []) }
            }
            try write(connection, batches())
            #expect(try connection.session(records[1].id, "session") == nil)
            #expect(state(try refusal(connection, batches())) == "PM002")
        }
    }

    /// Checks that settings made for the transaction end with it, however it ends.
    @Test func settingsStayWithTheTransaction() throws {
        try withDatabase { url in
            var settings = LogConnection.Settings()
            settings.connection.sessionSettings["lock_timeout"] = "1234"
            let connection = try LogConnection(url, settings: settings)
            defer { connection.close() }
            func patience() throws -> String { try connection.sql.execute("show lock_timeout").string(0, 0) }
            let before = try patience()
            var writers = try (0..<2).map { BatchWriter(try connection.make("n\($0)")) }
            let stale = writers.indices.map { number in
                var copy = writers[number]
                return copy.set("b", .int(1))
            }
            try write(connection, writers.indices.map { writers[$0].set("a", .int(1)) })
            #expect(try before == "1234ms" && patience() == before)
            _ = #expect(throws: LogStoreError.self) { try connection.commitJointly(stale, lockMilliseconds: 77) }
            #expect(try patience() == before)
        }
    }

    /// Checks that heads are locked in the order of the batches: a transaction that waits for a lock holds the locks
    /// before it and none after it. A lock timeout is reported as a lock conflict, and the lock's holder can be
    /// queried.
    @Test func headsAreTakenInTheirOrder() throws {
        try withDatabase { url in
            let connections = try (0..<2).map { _ in try LogConnection(url) }
            defer { for connection in connections { connection.close() } }
            var writers = try (0..<5).map { BatchWriter(try connections[0].make("n\($0)")) }
            let ids = writers.map(\.namespace)
            #expect(ids == ids.sorted())
            let batches = writers.indices.map { writers[$0].set("a", .int(1)) }
            #expect(try connections[1].lockedHeads(ids) == [])
            _ = try connections[1].lockHead(ids[2], expectedHead: 0)
            #expect(try connections[0].lockedHeads(ids) == [ids[2]])
            #expect(!connections[0].sql.isInTransaction)
            #expect(try refusal(connections[0], batches, lock: 20)?.isLockTimeout == true)
            let waiting = Thread(name: "joint") {
                guard let connection = try? LogConnection(url) else { return }
                defer { connection.close() }
                _ = try? connection.withoutPartition(batches)
                _ = try? connection.commitJointly(batches, lockMilliseconds: 60_000)
            }
            #expect(try oneWaitsForALock(url))
            #expect(try connections[0].lockedHeads(ids) == Set(ids[...2]))
            connections[1].unlockHead()
            waiting.join()
            for id in ids { #expect(try connections[0].namespace(id: id)?.head == 1) }
            #expect(try connections[0].lockedHeads([]) == [])
        }
    }
}
