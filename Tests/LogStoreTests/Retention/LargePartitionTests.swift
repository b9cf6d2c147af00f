import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks that a large log has few partitions, and that a large partition is dropped after it has been scanned, with no
/// younger entry in it.
@Suite struct LargePartitionTests {
    /// Runs `body` with a session on a database whose namespaces have partitions from their tenth entry on.
    private static func withSmallShare(_ body: (LogConnection) throws -> Void) throws {
        try withSession(sharingUpTo: 10, { _ in }, body)
    }

    @Test func partitionsGrowWithTheLog() throws {
        try Self.withSmallShare { connection in
            let namespace = try connection.make().id
            func makeRoom(_ seq: Int64) throws -> Int64 {
                try connection.sql.execute(
                    "select pathmirror.ensure_log_partition($1, $2, 8)", [.int8(namespace), .int8(seq)]
                ).int64(0, 0)
            }
            var first: Int64 = 10
            while first < 100_000 { first = try makeRoom(first + 500) }
            let ends = try ownPartitions(connection).map { try #require(Int64($0.split(separator: "_")[2])) } + [first]
            for (start, end) in zip(ends, ends.dropFirst()) {
                #expect(end - start == max(8, (start - 10) / 64), "\(start)")
            }
            #expect(ends.count < 450, "a log of 100,000 entries, eight each, would have 12,500")
            // After older partitions are dropped, the next ones are smaller.
            for start in ends where start < 99_000 {
                try connection.sql.executeScript("drop table pathmirror.log_\(namespace)_\(start)")
            }
            #expect(try makeRoom(first) - first < 100)
            // The limit holds for any size of the log and for every role.
            try connection.sql.executeScript("update pathmirror.namespace set partitioned_to = 10000000000")
            let room = try connection.sql.execute(
                "select pathmirror.ensure_log_partition($1, 10000000000, 1000000000)", [.int8(namespace)])
            #expect(try room.int64(0, 0) == 10_050_000_000)
        }
    }

    // MARK: Large partitions

    /// Runs `body` with a namespace with partitions of forty entries, 10 to 49 and 50 to 89, that retains entries from
    /// 60 on. Partitions of more than twenty entries count as large, and each scan step reads seven.
    /// Entries are sixty days old, the middle one `middleDays`.
    private static func withLarge(
        middleDays: Int = 60, entries: String = "generate_series(1, 89)",
        _ body: (LogConnection, Int64) throws -> Void
    ) throws {
        try withLargeAt(middleDays: middleDays, entries: entries) { connection, namespace, _ in
            try body(connection, namespace)
        }
    }

    private static func withLargeAt(
        middleDays: Int = 60, entries: String = "generate_series(1, 89)",
        _ body: (LogConnection, Int64, PostgresURL) throws -> Void
    ) throws {
        try withDatabase { url in
            try shareLog(upTo: 10, url)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let namespace = try connection.make().id
            for seq in [10, 50] as [Int64] {
                _ = try connection.sql.execute(
                    "select pathmirror.ensure_log_partition($1, $2, 40)", [.int8(namespace), .int8(seq)])
            }
            try connection.setRetention(RetentionPolicy(keeping: .seconds(30 * 86_400)), of: nil)
            try connection.sql.executeScript(
                """
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
                select \(namespace), seq, now() - case seq when 30 then \(middleDays) else 60 end * interval '1 day', gen_random_uuid(),
                    'set', '/', '{}'
                from \(entries) as seq;
                update pathmirror.namespace set head = 89, retained_from = 60 where id = \(namespace);
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(namespace), 59, 0, 'manual');
                do $$
                declare
                    name text;
                begin
                    foreach name in array array['drop_log', 'look_through_log'] loop
                        execute replace(replace(replace(pg_get_functiondef(('pathmirror.' || name || '(bigint)')::regprocedure),
                            '1000000', '20'), '50000', '7'), 'interval ''1 second'' then', 'interval ''0'' then');
                    end loop;
                    execute replace(pg_get_functiondef('pathmirror.look_through_log(bigint)'::regprocedure),
                        'started and started + interval ''1 second''', 'started and started');
                end
                $$;
                set session authorization pathmirror_gateway;
                """)
            try body(connection, namespace, url)
        }
    }

    /// Runs a script with the rights of the schema's owner.
    private static func asOwner(_ connection: LogConnection, _ script: String) throws {
        try connection.sql.executeScript(
            "reset session authorization; \(script); set session authorization pathmirror_gateway")
    }

    private static func looks(_ connection: LogConnection, _ namespace: Int64) throws -> Bool {
        try connection.sql.execute("select pathmirror.look_through_log($1)", [.int8(namespace)]).bool(0, 0)
    }

    /// Scans to the end.
    ///
    /// - Returns: The number of steps that found entries to scan.
    @discardableResult
    private static func looksToTheEnd(_ connection: LogConnection, _ namespace: Int64) throws -> Int {
        var count = 0
        while try looks(connection, namespace) { count += 1 }
        return count
    }

    private static func count(_ connection: LogConnection, _ what: String) throws -> Int64 {
        try connection.sql.execute("select count(*) from pathmirror.\(what)").int64(0, 0)
    }

    @Test func aLargePartitionGoesOnceItWasLookedThrough() throws {
        try Self.withLarge { (connection, namespace) throws in
            #expect(try connection.dropPiece(of: namespace) == 9, "the shared table's")
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.looks(connection, namespace))
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.looksToTheEnd(connection, namespace) == 5, "forty by seven, without the first look")
            #expect(try connection.dropPiece(of: namespace) == 40)
            #expect(try Self.looks(connection, namespace) == false, "the next one is not before the log's beginning")
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.count(connection, "log") == 40)
            #expect(try Self.count(connection, "retention_look") == 0)
        }
    }

    /// Checks that a gateway's round both scans and drops.
    @Test func aRoundLooksAndDrops() throws {
        try Self.withLarge { (connection, namespace) throws in
            // State of a round that was interrupted.
            try connection.noteRetention(
                namespace, dropped: 0, snapshots: 0, waitsFor: nil, message: "dropping entries before seq 1")
            let outcome = try RetentionRound(connection).run(namespace)
            #expect(outcome?.dropped == 49 && outcome?.message == nil, "\(String(describing: outcome))")
        }
    }

    /// Checks that partitions left by an earlier round are dropped even if a reader blocks the next step.
    @Test func leftoversGoWhileTheNextStepIsHeldBack() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                """
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(namespace), 79, 0, 'manual');
                insert into pathmirror.cursor (namespace_id, kind, name, seq) values (\(namespace), 'reader', 'slow', 65)
                """)
            let outcome = try RetentionRound(connection).run(namespace)
            #expect(outcome?.dropped == 49 && outcome?.waitsFor == "reader slow", "\(String(describing: outcome))")
        }
    }

    /// Checks that partitions that a reader needs, as after a forced prune, are neither retried nor reported as
    /// failures.
    @Test func leftoversInUseAreNotTried() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                "insert into pathmirror.cursor (namespace_id, kind, name, seq) values (\(namespace), 'reader', 'slow', 20)"
            )
            let outcome = try RetentionRound(connection).run(namespace)
            #expect(outcome?.dropped == 0 && outcome?.message == nil, "\(String(describing: outcome))")
            #expect(try Self.count(connection, "log") == 89)
        }
    }

    /// Checks that a manual prune prevents scans while it deletes entries, and invalidates earlier ones.
    @Test func aPruneByHandForgetsLooks() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            try connection.sql.executeScript("reset session authorization")
            let pruning = Pruning(connection, try #require(try connection.namespace(id: namespace)))
            try pruning.run(try pruning.plan(.from(60), force: false))
            #expect(try Self.count(connection, "retention_look") == 0)
        }
    }

    /// Checks a partition whose first entries `log prune` has deleted.
    @Test func aPartitionMayBeginLate() throws {
        try Self.withLarge(entries: "generate_series(17, 89)") { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    @Test func aYoungEntryInTheMiddleKeepsIt() throws {
        try Self.withLarge(middleDays: 29) { (connection, namespace) throws in
            #expect(try Self.looksToTheEnd(connection, namespace) == 2)
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            // Two days later the partition may be dropped.
            try Self.asOwner(connection, "update pathmirror.log set committed_at = committed_at - interval '2 days'")
            #expect(try Self.looksToTheEnd(connection, namespace) == 4)
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    /// Checks that a longer retention policy applies to partitions that have already been scanned.
    @Test func aLongerPolicyHoldsForWhatWasLookedThrough() throws {
        try Self.withLarge(middleDays: 31) { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            try Self.asOwner(connection, "update pathmirror.retention set keep_seconds = 32 * 86400")
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            try Self.asOwner(connection, "update pathmirror.retention set keep_seconds = 30 * 86400")
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    @Test func whatGoesByNumberIsNotLookedThrough() throws {
        try Self.withLarge(middleDays: 1) { (connection, namespace) throws in
            try Self.asOwner(
                connection, "update pathmirror.retention set keep_seconds = null, keep_entries = 40")
            #expect(try Self.looks(connection, namespace) == false)
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    // MARK: Limits for a compromised gateway

    private static let youngEntry = """
        insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
        select id, 40, now(), gen_random_uuid(), 'set', '/', '{}' from pathmirror.namespace
        """

    /// Checks that a scan of an incomplete partition does not count: entries added later are young.
    @Test func whatComesAfterALookIsNotOld() throws {
        try Self.withLarge(entries: "generate_series(1, 35)") { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            try Self.asOwner(
                connection, Self.youngEntry.replacing("40", with: "generate_series(36, 59)"))
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.count(connection, "log") == 50)
        }
    }

    /// Checks that a gateway cannot make scans start after the position of future entries.
    @Test func whatComesBeforeWhereALookBeganIsNotOld() throws {
        try Self.withLarge(entries: "generate_series(45, 89)") { (connection, namespace) throws in
            #expect(try Self.looksToTheEnd(connection, namespace) > 0)
            try Self.asOwner(connection, Self.youngEntry)
            #expect(try connection.dropPiece(of: namespace) == 0)
        }
    }

    @Test func theEndOfTheLastPartitionIsNotBelieved() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                """
                drop table pathmirror.log_\(namespace)_50; delete from pathmirror.log where seq < 10;
                update pathmirror.log set committed_at = now() where seq >= 45;
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(namespace), 44, 0, 'manual')
                """)
            try connection.sql.executeScript("update pathmirror.namespace set partitioned_to = 45, retained_from = 45")
            #expect(try Self.looksToTheEnd(connection, namespace) == 5)
            #expect(try connection.dropPiece(of: namespace) == 0)
            // With the correct values the scan continues.
            try connection.sql.executeScript("update pathmirror.namespace set partitioned_to = 50, retained_from = 60")
            try Self.asOwner(connection, "update pathmirror.log set committed_at = now() - interval '60 days'")
            #expect(try Self.looksToTheEnd(connection, namespace) == 1)
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    /// Checks that a scan does not count for another table with the same name.
    @Test func aLookIsOfOneTable() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            let table = "pathmirror.log_\(namespace)_10"
            try Self.asOwner(
                connection,
                """
                create table again (like \(table) including all); drop table \(table); alter table again set schema pathmirror;
                alter table pathmirror.again rename to log_\(namespace)_10; delete from pathmirror.log where seq < 10;
                alter table pathmirror.log_rest attach partition \(table) for values from (\(namespace), 10) to (\(namespace), 50);
                \(Self.youngEntry)
                """)
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.count(connection, "log where seq = 40") == 1)
        }
    }

    /// Checks that the functions refuse an old snapshot, which does not show the table's present entries.
    @Test(arguments: ["drop_log", "look_through_log"]) func anOlderSnapshotIsRefused(function: String) throws {
        try Self.withLarge { (connection, namespace) throws in
            try connection.sql.executeScript("begin isolation level repeatable read")
            #expect(throws: PostgresError.self) {
                try connection.sql.executeScript("select pathmirror.\(function)(\(namespace))")
            }
        }
    }

    /// Checks that a scan waits for an insert in progress in its partition.
    @Test func anInsertInFlightIsAwaited() throws {
        let entries = "unnest(array(select generate_series(1, 39)) || array(select generate_series(50, 89)))"
        try Self.withLargeAt(entries: entries) { (connection, namespace, url) throws in
            try Self.asOwner(connection, "update pathmirror.retention set keep_seconds = null, keep_entries = 5")
            let writer = try PostgresConnection(url)
            defer { writer.close() }
            try writer.executeScript("begin; \(Self.youngEntry)")
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace) }
            try writer.executeScript("commit")
            #expect(try Self.count(connection, "log where seq = 40") == 1)
        }
    }

    /// Checks that scanned entries are not deleted one by one, which would let others take their positions.
    @Test func aPartitionIsNotEmptiedEntryByEntry() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.looksToTheEnd(connection, namespace)
            try connection.sql.executeScript(
                """
                update pathmirror.namespace set retained_from = 49, shared_to = 1000000000;
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(namespace), 48, 0, 'manual')
                """)
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.count(connection, "log") == 80)
        }
    }

    /// Checks that a gateway's claim that a partition ends early does not cause later entries to be dropped with it.
    @Test func whereAPartitionEndsIsNotBelieved() throws {
        try Self.withLarge(middleDays: 0) { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                """
                update pathmirror.retention set keep_seconds = null, keep_entries = 60; drop table pathmirror.log_\(namespace)_50;
                update pathmirror.namespace set head = 49
                """)
            try connection.sql.executeScript(
                """
                update pathmirror.namespace set retained_from = 12, partitioned_to = 12, head = 1000;
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(namespace), 11, 0, 'manual')
                """)
            try Self.asOwner(connection, "update pathmirror.retention set keep_entries = 30")
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            #expect(try Self.count(connection, "log") == 40)
        }
    }

    /// Checks that a manual prune does not drop a partition that continues after the claimed end.
    @Test func aPruneDropsNoPartitionThatContinues() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(connection, "update pathmirror.namespace set partitioned_to = 51")
            try connection.sql.executeScript("reset session authorization")
            try connection.saveSnapshot(namespace, at: 84, .null)
            let pruning = Pruning(connection, try #require(try connection.namespace(id: namespace)))
            let plan = try pruning.plan(.entries(5), force: false)
            #expect(plan.partitions.count == 2)
            #expect(throws: LogStoreError.self) { try pruning.run(plan) }
            #expect(try Self.count(connection, "log where seq >= 50") == 40)
        }
    }

    /// Checks that a copy is not shortened: its retention policy arrives with the last round of copying.
    @Test func aCopyIsNotShortened() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                """
                insert into pathmirror.namespace_copy (namespace_id, namespace, move, source, source_id, stream_key)
                values (\(namespace), 'shop', gen_random_uuid(), 'home', 1, gen_random_uuid())
                """)
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace) }
            #expect(try Self.looks(connection, namespace) == false)
        }
    }

    /// Checks that a partition that is not fully scanned is not locked, so that no session waits for the lock.
    @Test func whatIsNotLookedThroughIsNotLocked() throws {
        try Self.withLargeAt { (connection, namespace, url) throws in
            let other = try PostgresConnection(url)
            defer { other.close() }
            try other.executeScript(
                "begin; lock table only pathmirror.log_\(namespace)_10 in share update exclusive mode")
            #expect(try connection.dropPiece(of: namespace) == 9)
            #expect(try connection.dropPiece(of: namespace) == 0)
            try Self.looksToTheEnd(connection, namespace)
            #expect(throws: LogStoreError.self) { try connection.dropPiece(of: namespace) }
            try other.executeScript("rollback")
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    /// Checks that a partition without entries is dropped. A restarted move may leave one.
    @Test func anEmptyPartitionGoes() throws {
        try Self.withLarge(entries: "generate_series(50, 89)") { (connection, namespace) throws in
            #expect(try connection.dropPiece(of: namespace) == 40)
            #expect(try Self.count(connection, "log") == 40)
        }
    }

    /// Checks that a detachment that an interrupted `log prune` began is completed.
    @Test func aDetachmentThatWasBegunIsEnded() throws {
        try Self.withLargeAt { (connection, namespace, url) throws in
            let reader = try PostgresConnection(url)
            defer { reader.close() }
            try reader.executeScript("begin; select count(*) from pathmirror.log")
            let prune = try PostgresConnection(url)
            defer { prune.close() }
            #expect(throws: PostgresError.self) {
                try prune.executeScript("set statement_timeout = 300")
                try prune.executeScript(
                    "alter table pathmirror.log_rest detach partition pathmirror.log_\(namespace)_10 concurrently")
            }
            try reader.executeScript("rollback")
            #expect(try Self.count(connection, "log") == 49)
            try Self.looksToTheEnd(connection, namespace)
            #expect(try connection.dropPiece(of: namespace) == 40)
        }
    }

    /// Checks a manual prune of a log in which retention has left most of a partition.
    @Test func pruningLeavesWhatIsMuchInItsPartition() throws {
        try Self.withSmallShare { connection in
            let record = try connection.make()
            _ = try connection.sql.execute(
                "select pathmirror.ensure_log_partition($1, 10, 300000)", [.int8(record.id)])
            try connection.sql.executeScript(
                """
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
                select \(record.id), seq, now(), gen_random_uuid(), 'set', '/', '{}' from generate_series(10, 150000) as seq;
                update pathmirror.namespace set head = 150000, retained_from = 140000;
                insert into pathmirror.snapshot (namespace_id, seq, row_count, made_by) values (\(record.id), 139999, 0, 'manual')
                """)
            let pruning = Pruning(connection, try #require(try connection.namespace(id: record.id)))
            let plan = try pruning.plan(.entries(1_000), force: false)
            #expect(plan.deletedEntries == 0)
            try pruning.run(plan)
            #expect(try Self.count(connection, "log") == 149_991)
        }
    }

    /// Checks that parts of retained entries are kept.
    @Test func partsGoWithTheirEntriesOnly() throws {
        try Self.withLarge { (connection, namespace) throws in
            try Self.asOwner(
                connection,
                """
                insert into pathmirror.log_part (namespace_id, seq, part, changes)
                select \(namespace), seq, 0, '{}' from generate_series(1, 89) as seq;
                update pathmirror.log set committed_at = now() where seq = 3
                """)
            // A gateway cannot assign parts to other entries either.
            #expect(throws: PostgresError.self) {
                try connection.sql.executeScript("update pathmirror.log_part set seq = 4, part = 1 where seq = 3")
            }
            #expect(try connection.dropPiece(of: namespace) == 8)
            #expect(try Self.count(connection, "log_part") == 81)
            try Self.looksToTheEnd(connection, namespace)
            #expect(try connection.dropPiece(of: namespace) == 40)
            #expect(try Self.count(connection, "log_part where seq <> 3 and seq < 50") == 0)
            #expect(try Self.count(connection, "log_part") == 41)
        }
    }

    @Test func onlyTheOwnerSaysWhatWasLookedThrough() throws {
        try Self.withLarge(middleDays: 29) { (connection, namespace) throws in
            for statement in [
                "insert into pathmirror.retention_look select \(namespace), 'pathmirror.log'::regclass, 10, 50, '-infinity'",
                "update pathmirror.retention_look set looked_to = 1", "delete from pathmirror.retention_look",
            ] {
                #expect(throws: PostgresError.self, "\(statement)") { try connection.sql.executeScript(statement) }
            }
        }
    }
}
