import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of the tables that namespaces share for the beginnings of their logs, and of partitions for later entries
/// (migration 011).
@Suite struct SharedLogTests {
    private func relations(_ connection: LogConnection) throws -> Int64 {
        try count(connection, "select count(*) from pg_class where relnamespace = 'pathmirror'::regnamespace")
    }

    private func head(_ connection: LogConnection, _ namespace: Int64) throws -> Int64 {
        try #require(try connection.namespace(id: namespace)).head
    }

    /// Makes the namespace appear to have `seq` entries, all of them writes of one leaf.
    private func grow(_ connection: LogConnection, _ record: NamespaceRecord, to seq: Int64) throws {
        let before = try head(connection, record.id)
        try connection.sql.executeScript(
            """
            begin;
            update pathmirror.namespace set head = \(seq) where id = \(record.id);
            insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
            select \(record.id), seq, now(), gen_random_uuid(), 'set', '/a', json_build_object('/a', seq)
            from generate_series(\(before + 1), \(seq)) as seq;
            insert into pathmirror.node (namespace_id, path, value, version) values (\(record.id), '/a', '\(seq)', \(seq))
            on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
            commit;
            """)
    }

    /// Checks that commits to a new namespace, by any way of writing, create only rows.
    @Test func newNamespacesMakeNoTables() throws {
        try withEngines(2) { url, engines in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let before = try relations(connection)
            for number in 0..<40 {
                var writer = BatchWriter(try connection.make("n\(number)"))
                #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
                #expect(try connection.lockHead(writer.namespace, expectedHead: 1) == 1)
                #expect(try connection.commit(writer.set("a", .int(2)), isLocked: true) == .committed)
                _ = try connection.sql.execute(
                    "select pathmirror.set('n\(number)', '/b', '3'::jsonb)")
            }
            // Two gateways that alternate, and so contend.
            let live = try engines.map { try $0.namespace("contended") }
            for number in 0..<20 {
                #expect(live[number % 2].write(.set("/k\(number)", .int(1))) != nil)
            }
            #expect(try relations(connection) == before)
            #expect(try ownPartitions(connection) == [])
            for record in try connection.allNamespaces() {
                #expect(try Verification.run(connection, record).isClean, "\(record.name)")
            }
        }
    }

    /// Checks the actual limit: entries on both sides of seq 65,536 are stored in partitions created in advance, read
    /// as one log, and pruned.
    @Test func whatIsBeyondHasPartitions() throws {
        try withSession { connection in
            let others = try (0..<3).map { try connection.make("other \($0)") }
            for record in others { try grow(connection, record, to: 10) }
            let record = try connection.make()
            try grow(connection, record, to: 65_530)
            #expect(try ownPartitions(connection) == [])
            var writer = BatchWriter(record)
            writer.head = 65_530
            writer.root = Node(children: [(Key("a"), .int(65_530))])
            for value in 0..<10 as Range<Int64> {
                #expect(try connection.commit(writer.set("a", .int(value))) == .committed)
            }
            #expect(try ownPartitions(connection) == ["log_\(record.id)_65536"])
            #expect(
                try connection.read(record.id, after: 65_525).map(\.entry.seq) == Array(65_526...65_540),
                "over the border"
            )
            let grown = try #require(try connection.namespace(id: record.id))
            #expect(try Verification.run(connection, grown).isClean)
            // Pruned first to a position in the shared tables, then beyond them.
            let pruning = Pruning(connection, grown)
            let first = try pruning.plan(.entries(12), force: false)
            #expect(first.newFrom == 65_529)
            #expect(first.deletedEntries == 65_528)
            #expect(first.partitions == [])
            try pruning.run(first)
            let pruned = try #require(try connection.namespace(id: record.id))
            #expect(try connection.read(record.id, after: 65_528).count == 12)
            #expect(try Verification.run(connection, pruned).isClean)
            let second = try pruning.plan(.entries(3), force: false)
            #expect(second.newFrom == 65_538)
            #expect(second.deletedEntries == 9)
            try pruning.run(second)
            #expect(try count(connection, "select count(*) from pathmirror.log where namespace_id = \(record.id)") == 3)
            #expect(try pruning.plan(.entries(3), force: false).isEmpty)
            // Other namespaces have lost nothing.
            for other in others {
                #expect(try connection.read(other.id, after: 0).count == 10)
                #expect(try Verification.run(connection, try #require(try connection.namespace(id: other.id))).isClean)
            }
        }
    }

    /// Checks that the head's partition is dropped with all of its entries only once the next one exists.
    @Test func whatIsBeyondIsDroppedWhole() throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            var writers = try ["a", "b"].map { BatchWriter(try connection.make($0)) }
            for value in 0..<45 as Range<Int64> {
                for index in writers.indices { _ = try connection.commit(writers[index].set("a", .int(value))) }
            }
            let ids = writers.map(\.namespace)
            let record = try #require(try connection.namespace(id: ids[0]))
            let pruning = Pruning(connection, record)
            let plan = try pruning.plan(.entries(4), force: false)
            #expect(plan.partitions == [8, 16, 24, 32].map { "log_\(ids[0])_\($0)" })
            #expect(plan.deletedEntries == 9, "1 to 7, 40 and 41")
            try pruning.run(plan)
            #expect(
                try ownPartitions(connection)
                    == ["log_\(ids[0])_40"] + [8, 16, 24, 32, 40].map { "log_\(ids[1])_\($0)" })
            for index in writers.indices {
                #expect(try connection.commit(writers[index].set("b", .int(1))) == .committed)
                let found = try #require(try connection.namespace(id: ids[index]))
                #expect(try Verification.run(connection, found).isClean)
            }
        }
    }

    /// Checks a batch that is larger than the space prepared before the head is locked.
    @Test func aLockedBatchMakesItsOwnRoom() throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            let writes = (0..<30).map { [Change(path: Path(splitting: "k\($0)"), value: .int(1))] }
            #expect(try connection.lockHead(writer.namespace, expectedHead: 0) == 0)
            #expect(try connection.commit(writer.batch(writes), isLocked: true) == .committed)
            #expect(try connection.read(writer.namespace, after: 0).count == 30)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    /// Checks that partitions created for a batch that is not committed are rolled back, and created again for the next
    /// batch.
    @Test(arguments: [false, true])
    func roomOfARefusedBatchIsMadeAgain(nextIsLocked: Bool) throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            let record = try connection.make()
            var refused = BatchWriter(record)
            var writer = BatchWriter(record)
            try connection.sql.executeScript(
                """
                create function refuse() returns trigger language plpgsql as $$
                begin raise exception 'not now'; end $$;
                create trigger refuse before insert on pathmirror.node for each row execute function refuse()
                """)
            let writes = (0..<30).map { [Change(path: Path(splitting: "k\($0)"), value: .int(1))] }
            #expect(try connection.lockHead(record.id, expectedHead: 0) == 0)
            #expect(throws: LogStoreError.self) { try connection.commit(refused.batch(writes), isLocked: true) }
            #expect(!connection.sql.isInTransaction)
            try connection.sql.executeScript("drop trigger refuse on pathmirror.node")
            if nextIsLocked { #expect(try connection.lockHead(record.id, expectedHead: 0) == 0) }
            #expect(try connection.commit(writer.batch(writes), isLocked: nextIsLocked) == .committed)
            #expect(try connection.loadTree(record.id).root == writer.root)
        }
    }

    /// Checks the upgrade of an older installation: its namespaces keep their partitions, new ones share tables, and
    /// both accept writes.
    @Test func anOlderInstallationIsUpgraded() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            _ = try Migrations.up(connection, through: 7)
            try connection.executeScript(
                """
                insert into pathmirror.namespace (name) values ('first'), ('second'), ('empty'), ('gone');
                delete from pathmirror.namespace where name = 'gone';
                """)
            for number in 0..<30 {
                for name in ["first", "second"] {
                    _ = try connection.execute(
                        "select pathmirror.set($1, $2, $3::text::jsonb)",
                        [.text(name), .text("/k\(number % 7)"), .text("\(number)")])
                }
            }
            let applied = try Migrations.up(connection).migrations.map(\.version)
            #expect(applied.contains(11))
            let log = try LogConnection(url)
            defer { log.close() }
            let old = try log.allNamespaces()
            #expect(old.map(\.name) == ["first", "second", "empty"])
            #expect(try ownPartitions(log) == ["log_1_0", "log_2_0"])
            let engine = try TestEngine(url)
            defer { engine.stop() }
            for name in ["first", "empty", "new", "newer"] {
                let live = try engine.namespace(name)
                for number in 0..<5 { #expect(live.write(.set("/more/\(number)", .int(1))) != nil) }
            }
            #expect(
                try ownPartitions(log) == ["log_1_0", "log_2_0", "log_3_0"], "as before, where it was so before")
            // Beyond its first million entries, an old namespace gets its next partition next to its others.
            _ = try connection.execute("select pathmirror.ensure_log_partition(1, 1000000, 1000000)")
            #expect(
                try count(
                    log,
                    "select count(*) from pg_inherits where inhparent = 'pathmirror.log'::regclass and "
                        + "inhrelid in ('pathmirror.log_1_0'::regclass, 'pathmirror.log_1_1000000'::regclass)") == 2)
            for record in try log.allNamespaces() where record.name != "first" {
                #expect(try Verification.run(log, record).isClean, "\(record.name)")
            }
            let first = try #require(try log.namespace(named: "first"))
            #expect(first.head == 35)
            let second = try #require(try log.namespace(named: "second"))
            let pruning = Pruning(log, second)
            let plan = try pruning.plan(.entries(5), force: false)
            #expect(plan.deletedEntries == 25)
            try pruning.run(plan)
            #expect(try log.read(second.id, after: 25).count == 5)
            #expect(try Verification.run(log, try #require(try log.namespace(id: second.id))).isClean)
            #expect(try Verification.run(log, first).isClean)
        }
    }
}
