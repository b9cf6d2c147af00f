import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of the row that holds a namespace's head.
@Suite struct HeadTests {
    /// Checks that an entry is never older than the one before it, even if the clock was ahead and has been set back.
    @Test func timesNeverStepBack() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
            try connection.sql.executeScript(
                "update pathmirror.namespace set stamped_at = clock_timestamp() + interval '1 hour'")
            #expect(try connection.commit(writer.set("a", .int(2))) == .committed)
            try connection.sql.executeScript("select pathmirror.set('\(try Self.name(connection))', '/b', '1')")
            let times = try connection.read(writer.namespace, after: 0).map(\.entry.committedAt)
            #expect(times.count == 3)
            #expect(times == times.sorted())
            #expect(times[1] - times[0] > 3_000_000)
        }
    }

    /// Checks that long values are compressed with the server's fastest method, and are read back unchanged.
    @Test func longEntriesAreCompressedQuickly() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let text = String(repeating: "long text ", count: 1_000)
            #expect(try connection.commit(writer.set("a", .string(text))) == .committed)
            let ways = try connection.sql.execute(
                """
                select pg_column_compression(changes), exists (
                    select from pg_settings where name = 'default_toast_compression' and 'lz4' = any (enumvals))
                from pathmirror.log where namespace_id = $1
                """, [.int8(writer.namespace)])
            #expect(try ways.string(0, 0) == (ways.bool(0, 1) ? "lz4" : "pglz"))
            #expect(try connection.read(writer.namespace, after: 0).first?.entry.changes.first?.value == .string(text))
        }
    }

    /// Checks that large and small batches on one connection do not affect each other's buffers.
    @Test func batchesOfAllSizesByOneConnection() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let values = [1, 300_000, 2, 400_000, 3].map { String(repeating: "x", count: $0) }
            for value in values { #expect(try connection.commit(writer.set("a/b", .string(value))) == .committed) }
            #expect(try connection.commit(writer.set("a/b", .null)) == .committed)
            #expect(try connection.commit(writer.set("c", .bool(true))) == .committed)
            let read = try connection.read(writer.namespace, after: 0).map(\.entry)
            #expect(read.map { "\($0.path)" } == ["/a/b", "/a/b", "/a/b", "/a/b", "/a/b", "/a/b", "/c"])
            #expect(
                read.flatMap(\.changes).map(\.value) == values.map { .string($0) } + [.null, .bool(true)])
            let rows = try connection.sql.execute(
                "select path, value::text from pathmirror.node where namespace_id = $1", [.int8(writer.namespace)])
            #expect(rows.rowCount == 1)
            #expect(try rows.string(0, 0) == "/c" && rows.string(0, 1) == "true")
        }
    }

    /// Checks that a batch is refused if the head's seq matches but its entry does not: PostgreSQL has lost the state
    /// on which the batch was evaluated.
    @Test(arguments: [false, true]) func otherEntryAtTheHead(byCopy: Bool) throws {
        try withSession {
            if byCopy { $0.copyThreshold = 0 }
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            let first = writer.set("a", .int(1))
            #expect(try connection.commit(first) == .committed)
            let second = writer.set("a", .int(2))
            let onPhantom = Batch(
                namespace: second.namespace, expectedHead: second.expectedHead, expectedBatch: Batch.makeID(),
                id: Batch.makeID(), records: second.records, rows: second.rows)
            #expect(try connection.commit(onPhantom) == .headMoved)
            #expect(!connection.sql.isInTransaction)
            let onReal = Batch(
                namespace: second.namespace, expectedHead: second.expectedHead, expectedBatch: first.id,
                id: Batch.makeID(), records: second.records, rows: second.rows)
            #expect(try connection.commit(onReal) == .committed)
        }
    }

    /// Checks that the row is found without a search through its old versions, which an open snapshot keeps.
    @Test func rowIsFoundWithoutItsVersions() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(writer.set("a", .int(0))) == .committed)
            let before = try Self.lookups(connection)
            for value in 1...50 as ClosedRange<Int64> {
                #expect(try connection.commit(writer.set("a", .int(value))) == .committed)
            }
            #expect(try Self.lookups(connection) == before)
        }
    }

    /// Checks that the row is found after other sessions have moved it nearby or out of reach.
    @Test func rowIsFoundAfterOthersMovedIt() throws {
        try withDatabase { url in
            let first = try LogConnection(url)
            let second = try LogConnection(url)
            defer {
                first.close()
                second.close()
            }
            var writer = BatchWriter(try first.make())
            for value in 0..<40 as Range<Int64> {
                let connection = value / 3 % 2 == 0 ? first : second
                #expect(try connection.commit(writer.set("a", .int(value))) == .committed)
                if value == 20 { try second.sql.executeScript("vacuum full pathmirror.namespace") }
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
                var settings = LogConnection.Settings()
                if let asked { settings.synchronousCommit = asked }
                let connection = try LogConnection(url, settings: settings)
                defer { connection.close() }
                let rows = try connection.sql.execute("select current_setting('synchronous_commit')")
                #expect(try rows.string(0, 0) == found)
            }
        }
    }

    /// The number of lookups of the row by its id.
    private static func lookups(_ connection: LogConnection) throws -> Int64 {
        // PostgreSQL reports statistics at the end of a transaction, or immediately on request.
        try connection.sql.executeScript("select pg_stat_force_next_flush()")
        let rows = try connection.sql.execute(
            "select idx_scan from pg_stat_user_indexes where indexrelname = 'namespace_pkey'")
        return try rows.int64(0, 0)
    }

    private static func name(_ connection: LogConnection) throws -> String {
        try connection.allNamespaces()[0].name
    }
}
