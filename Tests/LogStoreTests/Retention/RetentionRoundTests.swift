import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that logs are shortened as administrators configured, with a gateway's privileges, and never by more.
@Suite struct RetentionRoundTests {
    /// Runs `body` with a session on a database whose namespaces share tables for ten entries and have partitions of
    /// twenty.
    private static func withSmallTables(_ body: (LogConnection) throws -> Void) throws {
        try withSession(sharingUpTo: 10) {
            $0.entriesPerPartition = 20
        } _: { connection in
            try body(connection)
        }
    }

    /// Writes entries one day apart, the last one now.
    private static func write(_ count: Int, _ writer: inout BatchWriter, _ connection: LogConnection) throws {
        for _ in 0..<count {
            #expect(try connection.commit(writer.set("k/\(writer.head % 7)", .int(writer.head))) == .committed)
        }
        try connection.sql.executeScript(
            """
            update pathmirror.log set committed_at = now() - (\(writer.head) - seq) * interval '1 day'
            where namespace_id = \(writer.namespace)
            """)
    }

    /// Runs a gateway's round with the privileges of a gateway only.
    private static func round(_ connection: LogConnection, _ namespace: Int64) throws -> RetentionOutcome? {
        try connection.sql.executeScript("set session authorization pathmirror_gateway")
        defer { try? connection.sql.executeScript("reset session authorization") }
        return try RetentionRound(connection).run(namespace)
    }

    private static func seqs(_ connection: LogConnection, _ namespace: Int64) throws -> [Int64] {
        let rows = try connection.sql.execute(
            "select seq from pathmirror.log where namespace_id = $1 order by seq", [.int8(namespace)])
        return try (0..<rows.rowCount).map { try rows.int64($0, 0) }
    }

    private static func isProven(_ connection: LogConnection, _ name: String = "test") throws -> Bool {
        let record = try #require(try connection.namespace(named: name))
        return try Verification.run(connection, record).isClean
    }

    @Test func withoutAPolicyNothingGoes() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try Self.write(50, &writer, connection)
            #expect(try Self.round(connection, namespace.id) == nil)
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace.id) }
            #expect(try connection.namespacesWithRetention(after: 0, limit: 10) == [])
            #expect(try Self.seqs(connection, namespace.id).count == 50)
        }
    }

    @Test func oldEntriesGoUpToASnapshot() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try connection.setRetention(RetentionPolicy(keeping: .seconds(20 * 86_400)), of: nil)
            try Self.write(45, &writer, connection)
            #expect(try connection.namespacesWithRetention(after: 0, limit: 10) == [namespace.id])
            let first = try #require(try Self.round(connection, namespace.id))
            #expect(first.tookSnapshot && first.dropped == 0)
            try Self.write(15, &writer, connection)
            // The snapshot at 45 is younger than the retention period.
            #expect(try Self.round(connection, namespace.id)?.newFrom == nil)
            try Self.write(10, &writer, connection)
            let outcome = try #require(try Self.round(connection, namespace.id))
            #expect(outcome.newFrom == 46)
            #expect(outcome.message == nil && outcome.waitsFor == nil)
            #expect(try connection.namespace(id: namespace.id)?.retainedFrom == 46)
            // Whole partitions (10 to 29) and the entries in the shared tables were dropped. 30 to 45 remain with their
            // partition.
            #expect(try Self.seqs(connection, namespace.id) == Array(30...70))
            #expect(try connection.retentionRun(of: namespace.id)?.dropped == 29)
            #expect(try connection.retentionRun(of: namespace.id)?.message == nil)
            #expect(try Self.isProven(connection))
        }
    }

    @Test func aReaderKeepsWhatItNeeds() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try connection.setRetention(
                RetentionPolicy(keeping: .seconds(86_400), snapshotSeconds: 60), of: namespace.id)
            for _ in 0..<5 {
                try Self.write(10, &writer, connection)
                _ = try Self.round(connection, namespace.id)
                // Dates the snapshot to the day of its entry.
                try connection.sql.executeScript(
                    "update pathmirror.snapshot set created_at = created_at - interval '1 day'")
                if writer.head == 10 {
                    try connection.sql.executeScript(
                        "insert into pathmirror.cursor (namespace_id, kind, name, seq) values (\(namespace.id), 'reader', 'slow', 27)"
                    )
                }
            }
            let outcome = try #require(try Self.round(connection, namespace.id))
            #expect(outcome.waitsFor == "reader slow")
            #expect(try connection.namespace(id: namespace.id)?.retainedFrom == 21)
            #expect(try connection.retentionRun(of: namespace.id)?.waitsFor == "reader slow")
            try connection.sql.executeScript("delete from pathmirror.cursor")
            #expect(try #require(try Self.round(connection, namespace.id)).waitsFor == nil)
            #expect(try connection.namespace(id: namespace.id)?.retainedFrom == 41)
            #expect(try Self.isProven(connection))
        }
    }

    @Test func theLastEntriesStay() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try connection.setRetention(RetentionPolicy(keeping: .entries(30)), of: nil)
            for _ in 0..<8 {
                try Self.write(10, &writer, connection)
                _ = try connection.takeSnapshot(namespace.id, for: .retention)
                _ = try Self.round(connection, namespace.id)
                let from = try #require(try connection.namespace(id: namespace.id)).retainedFrom
                #expect(writer.head - from + 1 >= min(30, writer.head), "at least what is promised")
                #expect(writer.head - from + 1 < 40, "and little more")
                #expect(try Self.isProven(connection))
            }
        }
    }

    @Test func theOldestPartitionsGoWhereTheyTakeTooMuch() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            for _ in 0..<9 {
                try Self.write(10, &writer, connection)
                _ = try connection.takeSnapshot(namespace.id, for: .retention)
            }
            func sizes() throws -> [Int64] {
                try ownPartitions(connection).map { name in
                    try connection.sql.execute(
                        "select pg_total_relation_size(('pathmirror.' || $1)::regclass)", [.text(name)]
                    )
                    .int64(0, 0)
                }
            }
            // The size of the three newest entries together.
            let bound = try sizes().suffix(3).reduce(0, +)
            try connection.setRetention(RetentionPolicy(keeping: nil, maxBytes: bound), of: namespace.id)
            let outcome = try #require(try Self.round(connection, namespace.id))
            #expect(outcome.newFrom != nil && outcome.dropped > 10, "\(outcome)")
            let left = try sizes()
            #expect(left.reduce(0, +) >= bound, "what may stay is there")
            // The log is cut at snapshots, which are ten entries apart.
            #expect(left.count <= 4, "\(left)")
            #expect(try Self.isProven(connection))
        }
    }

    // MARK: Forbidden to gateways

    /// Checks that a compromised gateway, which can change its own rows freely, cannot drop more than the policy
    /// allows.
    @Test(arguments: [
        "update pathmirror.namespace set retained_from = 41",
        // The last partition, with an old entry after its young ones.
        """
        update pathmirror.namespace set retained_from = 70;
        insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) select id, 69, 0, 'manual' from pathmirror.namespace;
        insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
        select id, 69, now() - interval '1 year', gen_random_uuid(), 'set', '/', '{}' from pathmirror.namespace;
        """,
    ]) func nothingGoesThatIsToStay(harm: String) throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try Self.write(50, &writer, connection)
            try connection.setRetention(RetentionPolicy(keeping: .seconds(30 * 86_400)), of: nil)
            try connection.saveSnapshot(namespace.id, at: 40, writer.root)
            try connection.sql.executeScript("set session authorization pathmirror_gateway")
            try connection.sql.executeScript(harm)
            for _ in 0..<5 { _ = try? connection.dropPiece(of: namespace.id) }
            for statement in [
                "update pathmirror.retention set keep_seconds = 1", "delete from pathmirror.retention",
                "insert into pathmirror.retention (namespace_id, keep_entries) values (\(namespace.id), 0)",
                "delete from pathmirror.log", "drop table pathmirror.log_\(namespace.id)_10",
            ] {
                #expect(throws: PostgresError.self, "\(statement)") { try connection.sql.executeScript(statement) }
            }
            try connection.sql.executeScript("reset session authorization")
            // Entries 1 to 20 are older than thirty days.
            #expect(Set(try Self.seqs(connection, namespace.id)).isSuperset(of: 21...50))
        }
    }

    /// Checks that a head that a gateway writes into the namespace's row does not make entries old.
    @Test func aHeadWithoutEntriesDropsNone() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try Self.write(50, &writer, connection)
            try connection.setRetention(RetentionPolicy(keeping: .entries(45)), of: nil)
            try connection.saveSnapshot(namespace.id, at: 40, writer.root)
            try connection.sql.executeScript("set session authorization pathmirror_gateway")
            try connection.sql.executeScript("update pathmirror.namespace set retained_from = 41, head = 1000000")
            for _ in 0..<5 { _ = try? connection.dropPiece(of: namespace.id) }
            try connection.sql.executeScript("reset session authorization")
            #expect(Set(try Self.seqs(connection, namespace.id)).isSuperset(of: 6...50))
        }
    }

    @Test func nothingGoesWithoutASnapshotOrThatIsNeeded() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try Self.write(50, &writer, connection)
            try connection.setRetention(RetentionPolicy(keeping: .seconds(86_400)), of: nil)
            try connection.sql.executeScript("update pathmirror.namespace set retained_from = 31")
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace.id) }
            try connection.saveSnapshot(namespace.id, at: 30, writer.root)
            try connection.sql.executeScript(
                "insert into pathmirror.cursor (namespace_id, kind, name, seq) values (\(namespace.id), 'reader', 'slow', 29)"
            )
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace.id) }
            #expect(try Self.seqs(connection, namespace.id).count == 50)
            try connection.sql.executeScript("update pathmirror.cursor set seq = 30")
            #expect(try connection.dropPiece(of: namespace.id) == 20)
        }
    }

    /// Checks that dropping a piece waits only briefly for readers of the log, so that a long reader does not block
    /// other sessions.
    @Test func aLongReaderIsNotWaitedFor() throws {
        try withDatabase { url in
            try shareLog(upTo: 10, url)
            var settings = LogConnection.Settings()
            settings.entriesPerPartition = 20
            let connection = try LogConnection(url, settings: settings)
            defer { connection.close() }
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try connection.setRetention(RetentionPolicy(keeping: .seconds(86_400)), of: nil)
            try Self.write(50, &writer, connection)
            _ = try Self.round(connection, namespace.id)
            try Self.write(3, &writer, connection)
            let reader = try PostgresConnection(url)
            defer { reader.close() }
            try reader.executeScript("begin; select count(*) from pathmirror.log")
            let held = try #require(try Self.round(connection, namespace.id))
            #expect(held.message?.contains("lock timeout") == true, "\(held)")
            #expect(try connection.retentionRun(of: namespace.id)?.message != nil)
            // Readers and writers continue. The entries are only dropped later.
            try Self.write(1, &writer, connection)
            try reader.executeScript("commit")
            let outcome = try #require(try Self.round(connection, namespace.id))
            #expect(outcome.dropped == 49 && outcome.message == nil, "\(outcome)")
            #expect(try connection.retentionRun(of: namespace.id)?.message == nil)
            #expect(try Self.isProven(connection))
        }
    }

    /// Checks a simulated year with one round per day: the log keeps its configured length, and nothing accumulates.
    @Test func aYear() throws {
        try Self.withSmallTables { connection in
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            try connection.setRetention(RetentionPolicy(keeping: .seconds(20 * 86_400)), of: nil)
            for day in 1...365 {
                try Self.write(1, &writer, connection)
                // Snapshots grow older as well.
                try connection.sql.executeScript(
                    "update pathmirror.snapshot set created_at = created_at - interval '1 day'")
                let outcome = try #require(try Self.round(connection, namespace.id))
                #expect(outcome.message == nil && outcome.waitsFor == nil)
                let record = try #require(try connection.namespace(id: namespace.id))
                #expect(record.retainedFrom <= max(1, writer.head - 19), "twenty days are there")
                #expect(writer.head - record.retainedFrom < 26 || day < 26, "and no more than a quarter besides")
                #expect(try ownPartitions(connection).count <= 5)
                #expect(try connection.snapshots(namespace.id).count <= 7)
            }
            #expect(try connection.retentionRun(of: namespace.id)?.dropped ?? 0 >= 300)
            #expect(try Self.isProven(connection))
        }
    }
}
