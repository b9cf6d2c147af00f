import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// The row that holds a namespace's head.
@Suite struct HeadTests {
    /// The clock was ahead and has been set back: no entry is older than the one before it.
    @Test func timesNeverStepBack() throws {
        try withSession { session in
            var writer = BatchWriter(try session.make())
            #expect(try session.commit(writer.set("a", .int(1))) == .committed)
            try session.connection.executeScript(
                "update pathmirror.namespace set stamped_at = clock_timestamp() + interval '1 hour'")
            #expect(try session.commit(writer.set("a", .int(2))) == .committed)
            try session.connection.executeScript("select pathmirror.set('\(try Self.name(session))', '/b', '1')")
            let times = try session.read(writer.namespace, after: 0).map(\.entry.committedAt)
            #expect(times.count == 3)
            #expect(times == times.sorted())
            #expect(times[1] - times[0] > 3_000_000)
        }
    }

    /// The number is right, but the entry there is another one: PostgreSQL has lost what this batch was evaluated on.
    @Test(arguments: [false, true]) func otherEntryAtTheHead(byCopy: Bool) throws {
        try withSession {
            if byCopy { $0.copyThreshold = 0 }
        } _: { session in
            var writer = BatchWriter(try session.make())
            let first = writer.set("a", .int(1))
            #expect(try session.commit(first) == .committed)
            let second = writer.set("a", .int(2))
            let onPhantom = Batch(
                namespace: second.namespace, expectedHead: second.expectedHead, expectedBatch: Batch.makeID(),
                id: Batch.makeID(), records: second.records, rows: second.rows)
            #expect(try session.commit(onPhantom) == .headMoved)
            #expect(!session.connection.isInTransaction)
            let onReal = Batch(
                namespace: second.namespace, expectedHead: second.expectedHead, expectedBatch: first.id,
                id: Batch.makeID(), records: second.records, rows: second.rows)
            #expect(try session.commit(onReal) == .committed)
        }
    }

    /// A snapshot that is held open keeps every version of the row: it is not looked up among them.
    @Test func rowIsFoundWithoutItsVersions() throws {
        try withSession { session in
            var writer = BatchWriter(try session.make())
            #expect(try session.commit(writer.set("a", .int(0))) == .committed)
            let before = try Self.lookups(session)
            for value in 1...50 as ClosedRange<Int64> {
                #expect(try session.commit(writer.set("a", .int(value))) == .committed)
            }
            #expect(try Self.lookups(session) == before)
        }
    }

    /// It is found where it went, when others have moved it, and when it was moved out of reach.
    @Test func rowIsFoundAfterOthersMovedIt() throws {
        try withDatabase { url in
            let first = try LogSession(url)
            let second = try LogSession(url)
            defer {
                first.close()
                second.close()
            }
            var writer = BatchWriter(try first.make())
            for value in 0..<40 as Range<Int64> {
                let session = value / 3 % 2 == 0 ? first : second
                #expect(try session.commit(writer.set("a", .int(value))) == .committed)
                if value == 20 { try second.connection.executeScript("vacuum full pathmirror.namespace") }
                if value == 30 {
                    #expect(try first.lockHead(writer.namespace, expectedHead: 31) == 31)
                    first.unlockHead()
                }
            }
        }
    }

    @Test func commitsAreSynchronousWhateverTheRoleSays() throws {
        try withDatabase { url in
            let administrator = try PostgresConnection(url)
            try administrator.executeScript(
                """
                do $$ begin
                    execute format('alter database %I set synchronous_commit = off', current_database());
                end $$
                """)
            administrator.close()
            for (asked, found) in [(nil, "on"), ("remote_apply", "remote_apply"), ("off", "off")] {
                var settings = LogSession.Settings()
                if let asked { settings.synchronousCommit = asked }
                let session = try LogSession(url, settings: settings)
                defer { session.close() }
                let rows = try session.connection.execute("select current_setting('synchronous_commit')")
                #expect(try rows.string(0, 0) == found)
            }
        }
    }

    /// How often the row was looked up by its id.
    private static func lookups(_ session: LogSession) throws -> Int64 {
        // What was counted is told at the end of a transaction, and at once if asked to.
        try session.connection.executeScript("select pg_stat_force_next_flush()")
        let rows = try session.connection.execute(
            "select idx_scan from pg_stat_user_indexes where indexrelname = 'namespace_pkey'")
        return try rows.int64(0, 0)
    }

    private static func name(_ session: LogSession) throws -> String {
        try session.allNamespaces()[0].name
    }
}
