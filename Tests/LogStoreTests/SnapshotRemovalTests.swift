import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Tests of snapshots that are taken while their namespace or tables of the log are removed.
@Suite struct SnapshotRemovalTests {
    /// Runs `body` with a namespace that has a row, and another connection.
    private func withNamespace(
        _ body: (LogConnection, NamespaceRecord, LogConnection, PostgresURL) throws -> Void
    ) throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            let other = try LogConnection(url)
            defer { for each in [connection, other] { each.close() } }
            let record = try #require(try connection.namespace(named: "gone", creating: true))
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a", .string("text")))
            try body(connection, record, other, url)
        }
    }

    private func left(of namespace: Int64, _ connection: LogConnection) throws -> Int64 {
        try connection.sql.execute(
            """
            select (select count(*) from pathmirror.snapshot where namespace_id = \(namespace))
                + (select count(*) from pathmirror.snapshot_chunk where namespace_id = \(namespace))
            """
        ).int64(0, 0)
    }

    @Test func aSnapshotDoesNotOutliveItsNamespace() throws {
        try withNamespace { (connection, record, other, _) throws in
            #expect(throws: LogStoreError.self) {
                _ = try connection.takeSnapshot(record.id) { _ in
                    let isRemoved = try other.removeNamespace(record.id)
                    #expect(isRemoved)
                }
            }
            #expect(try left(of: record.id, other) == 0)
            // The connection is usable.
            #expect(try connection.namespace(named: "gone") == nil)
        }
    }

    /// Checks that a snapshot waits for a removal in progress that searched for snapshots before this one existed.
    @Test func aRemovalInFlightIsAwaited() throws {
        try withNamespace { (connection, record, _, url) throws in
            let id = record.id
            let mayBegin = Condition(false)
            let isBegun = Condition(false)
            let remover = Thread(name: "remover") {
                _ = mayBegin.wait(milliseconds: 30_000) { $0 ? true : nil }
                let removal = try? LogConnection(url)
                defer { removal?.close() }
                try? removal?.sql.executeScript(
                    """
                    begin; delete from pathmirror.namespace where id = \(id);
                    delete from pathmirror.snapshot where namespace_id = \(id)
                    """)
                isBegun.broadcast { $0 = true }
                _ = try? oneWaitsForALock(url)
                try? removal?.sql.executeScript("commit")
            }
            #expect(throws: LogStoreError.self) {
                _ = try connection.takeSnapshot(record.id) { _ in
                    mayBegin.broadcast { $0 = true }
                    _ = isBegun.wait(milliseconds: 30_000) { $0 ? true : nil }
                }
            }
            remover.join()
            #expect(try left(of: record.id, connection) == 0)
        }
    }

    /// Checks that a snapshot of a large tree does not block sessions that drop tables of the log, and that its entry's
    /// time is known in the end.
    @Test func theLogIsFreeWhileASnapshotIsTaken() throws {
        try withNamespace { (connection, record, other, _) throws in
            // Only this session's locks: a vacuum of the server may hold some, too.
            let session = try connection.sql.execute("select pg_backend_pid()::bigint").int64(0, 0)
            let seq = try connection.takeSnapshot(record.id) { _ in
                let locks = try other.sql.execute(
                    """
                    select count(*) from pg_locks join pg_class on pg_class.oid = relation
                    where relname like 'log%' and relkind in ('r', 'p') and pid = \(session)
                    """)
                #expect(try locks.int64(0, 0) == 0)
            }
            let isRight = try connection.sql.execute(
                """
                select entry_at = (select committed_at from pathmirror.log where namespace_id = \(record.id) and seq = \(seq))
                from pathmirror.snapshot where namespace_id = \(record.id)
                """)
            #expect(try isRight.bool(0, 0))
        }
    }
}
