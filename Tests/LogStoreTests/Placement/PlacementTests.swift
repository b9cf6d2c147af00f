import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that a namespace is placed in one database at a time, even by concurrent sessions.
@Suite struct PlacementTests {
    private static func record(_ name: String, _ number: Int = 1, host: String = "127.0.0.1") -> DatabaseRecord {
        DatabaseRecord(
            name: name, host: host, port: "5432", databaseName: "x",
            installation: "00000000-0000-0000-0000-00000000000\(number)")
    }

    private static func isMisplaced(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch LogStoreError.misplaced {
            return true
        } catch {
            Issue.record("\(error)")
            return false
        }
    }

    @Test func aPlacedNamespaceIsNotCreatedInThePrimary() throws {
        try withSession { primary in
            try primary.addDatabase(Self.record("b"))
            try primary.setPlacement("n", in: "b")
            try primary.setPlacement("n", in: "b")
            #expect(try primary.database(of: "n")?.name == "b")
            #expect(Self.isMisplaced { _ = try primary.namespace(named: "n", creating: true) })
            try primary.setPlacement("n", in: nil)
            #expect(try primary.database(of: "n") == nil)
            #expect(try primary.namespace(named: "n", creating: true) != nil)
            #expect(Self.isMisplaced { try primary.setPlacement("n", in: "b") }, "it is in the home")
        }
    }

    @Test func placementsThatAreRefused() throws {
        try withSession { primary in
            #expect(Self.isMisplaced { try primary.setPlacement("n", in: "b") })
            try primary.addDatabase(Self.record("b"))
            try primary.addDatabase(Self.record("c", 2))
            try primary.setPlacement("n", in: "b")
            #expect(Self.isMisplaced { try primary.setPlacement("n", in: "c") })
            #expect(try primary.drainDatabase("c", true))
            #expect(Self.isMisplaced { try primary.setPlacement("m", in: "c") })
            #expect(try primary.drainDatabase("c", false))
            try primary.setPlacement("m", in: "c")
            #expect(try !primary.drainDatabase("d", true))
        }
    }

    @Test func aDatabaseIsAddedOnceAndCanMove() throws {
        try withSession { primary in
            try primary.addDatabase(Self.record("b"))
            try primary.addDatabase(Self.record("b", host: "10.0.0.1"))
            #expect(try primary.databases().map(\.host) == ["10.0.0.1"])
            #expect(Self.isMisplaced { try primary.addDatabase(Self.record("b", 2)) }, "another one of that name")
            #expect(Self.isMisplaced { try primary.addDatabase(Self.record("c")) }, "the same one of another name")
            #expect(throws: LogStoreError.self) { try primary.addDatabase(Self.record("home", 3)) }
        }
    }

    /// Checks that only one succeeds if one session creates a namespace in the primary database while another assigns it
    /// elsewhere.
    @Test func neverInTwoDatabases() throws {
        try withDatabase { url in
            let primary = try LogConnection(url)
            defer { primary.close() }
            try primary.addDatabase(Self.record("b"))
            for number in 0..<30 {
                let successes = MutexBox(0)
                let threads = [true, false].map { isPlacing in
                    Thread(name: "place") {
                        guard let connection = try? LogConnection(url) else { return }
                        defer { connection.close() }
                        do {
                            if isPlacing {
                                try connection.setPlacement("n\(number)", in: "b")
                            } else {
                                _ = try connection.namespace(named: "n\(number)", creating: true)
                            }
                            successes.withLock { $0 += 1 }
                        } catch {}
                    }
                }
                for thread in threads { thread.join() }
                #expect(successes.withLock { $0 } == 1)
            }
        }
    }

    @Test func aMapFollows() throws {
        try withDatabase { url in
            let primary = try LogConnection(url)
            defer { primary.close() }
            let map = PlacementMap()
            let news = MutexBox(0)
            map.onNews { _ in news.withLock { $0 += 1 } }
            try map.look(primary, isNew: true)
            #expect(map.database(of: "n") == nil && map.databases.isEmpty)
            try primary.addDatabase(Self.record("b"))
            try primary.setPlacement("n", in: "b")
            try primary.setPlacement("m", in: "b")
            try map.look(primary, isNew: false)
            #expect(map.database(of: "n") == "b" && map.database(of: "m") == "b" && map.database(of: "o") == nil)
            let count = news.withLock { $0 }
            try map.look(primary, isNew: false)
            #expect(news.withLock { $0 } == count, "nothing has changed")
            try primary.setPlacement("n", in: nil)
            try map.look(primary, isNew: false)
            #expect(map.database(of: "n") == nil && map.database(of: "m") == "b")
            // A backup was restored: the map drops placements that the backup does not contain.
            try primary.sql.executeScript("truncate pathmirror.placement")
            try map.look(primary, isNew: true)
            #expect(map.database(of: "m") == nil)
        }
    }

    /// Checks that lookups during a complete reload find either the old or the new placement, never none.
    @Test func aMapIsReloadedWhileItIsUsed() throws {
        try withDatabase { url in
            let primary = try LogConnection(url)
            defer { primary.close() }
            try primary.addDatabase(Self.record("b"))
            // More rows than one statement reads.
            try primary.sql.executeScript(
                "insert into pathmirror.placement (namespace, database, version) select 'n' || i, 'b', 1 from generate_series(1, 10001) i"
            )
            let map = PlacementMap()
            try map.look(primary, isNew: true)
            #expect(map.database(of: "n1") == "b" && map.database(of: "n10001") == "b" && map.database(of: "n") == nil)
            let isDone = MutexBox(false)
            let missed = MutexBox(0)
            let reader = Thread(name: "reader") {
                while !isDone.withLock({ $0 }) {
                    if map.database(of: "n10000") != "b" { missed.withLock { $0 += 1 } }
                }
            }
            defer { reader.join() }
            defer { isDone.withLock { $0 = true } }
            for _ in 0..<10 { try map.look(primary, isNew: true) }
            #expect(missed.withLock { $0 } == 0)
        }
    }

    @Test func changesAreAnnounced() throws {
        try withDatabase { url in
            let primary = try LogConnection(url)
            let listener = try LogConnection(url)
            defer {
                primary.close()
                listener.close()
            }
            try listener.listen(to: [.placement])
            try primary.addDatabase(Self.record("b"))
            #expect(
                try eventually { try listener.waitForAnnouncements(milliseconds: 100, wake: nil).contains(.placement) })
            try primary.setPlacement("n", in: "b")
            #expect(
                try eventually { try listener.waitForAnnouncements(milliseconds: 100, wake: nil).contains(.placement) })
        }
    }

    @Test func gatewaysSetNoPlacement() throws {
        try withSession { primary in
            try primary.addDatabase(Self.record("b"))
            try primary.sql.executeScript("set session authorization pathmirror_gateway")
            #expect(try primary.databases().count == 1)
            #expect(throws: LogStoreError.self) { try primary.setPlacement("n", in: "b") }
            #expect(throws: LogStoreError.self) { try primary.addDatabase(Self.record("c", 2)) }
            #expect(throws: LogStoreError.self) { try primary.drainDatabase("b", true) }
            // The namespace can still be created.
            #expect(try primary.namespace(named: "m", creating: true) != nil)
        }
    }

    @Test func aRemovedNamespaceLeavesNothing() throws {
        try withSession { connection in
            let gone = try #require(try connection.namespace(named: "gone", creating: true)).id
            let stays = try #require(try connection.namespace(named: "stays", creating: true)).id
            for id in [gone, stays] {
                _ = try connection.setRules(
                    id, source: Array("{\"rules\": {\".read\": true}}".utf8),
                    origin: Origin(uid: nil, isAdmin: true, via: .cli, address: nil))
                _ = try connection.takeSnapshot(id) { _ in }
                // A separate partition.
                try connection.sql.executeScript("select pathmirror.ensure_log_partition(\(id), 66000, 1000)")
            }
            #expect(try connection.facts(of: gone).entries == 1)
            #expect(try connection.removeNamespace(gone))
            #expect(try !connection.removeNamespace(gone))
            #expect(try connection.removeLeftovers(of: "gone"))
            #expect(try !connection.removeLeftovers(of: "gone"))
            #expect(try !connection.removeLeftovers(of: "stays"))
            let tables = try connection.sql.execute(
                """
                select relname::text from pg_class join pg_attribute on attrelid = pg_class.oid and attname = 'namespace_id'
                where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p')
                """)
            #expect(tables.rowCount > 10)
            for row in 0..<tables.rowCount {
                let table = try tables.string(row, 0)
                let left = try connection.sql.execute(
                    "select count(*) from pathmirror.\(table) where namespace_id = \(gone)")
                #expect(try left.int64(0, 0) == 0, "\(table)")
                #expect(!table.hasPrefix("log_\(gone)_"))
            }
            #expect(try connection.facts(of: stays).entries == 1)
            #expect(try connection.facts(of: stays).snapshots == 1)
        }
    }

    /// Checks that a long reader of the log delays only the cleanup of a removed namespace: other sessions can write
    /// and create tables.
    @Test(arguments: [false, true]) func aLongReaderBlocksNoWriter(isMove: Bool) throws {
        try withGone { url, connection, reader, other, gone in
            let stays = try #require(try connection.namespace(named: "stays", creating: true))
            var writer = BatchWriter(stays)
            for id in [gone, stays.id] {
                try connection.sql.executeScript("select pathmirror.ensure_log_partition(\(id), 66000, 1000)")
            }
            try reader.sql.executeScript("begin isolation level repeatable read; select count(*) from pathmirror.log")
            let move = "6a1d3c5e-0000-4000-8000-000000000001"
            #expect(try connection.removeNamespace(gone))
            if isMove {
                try connection.sql.executeScript(
                    "update pathmirror.former_namespace set moved_to = 'b', move = '\(move)' where id = \(gone)")
                #expect(try !connection.removeLeftovers(of: "gone"))
            }
            let isDone = Condition(false)
            let thread = Thread(name: "remover") {
                let remover = try? LogConnection(url)
                defer { remover?.close() }
                if isMove {
                    try? remover?.clearFormerNamespace(gone, move: move)
                } else {
                    _ = try? remover?.removeLeftovers(of: "gone")
                }
                isDone.broadcast { $0 = true }
            }
            #expect(eventually { (try? waits(other)) ?? false })
            // Longer than an attempt of the cleanup takes.
            try other.sql.executeScript("set lock_timeout = '5s'")
            for number in 0..<20 {
                _ = try other.commit(writer.set("a", .int(Int64(number))))
                try other.sql.executeScript(
                    "select pathmirror.ensure_log_partition(\(stays.id), \(67_000 + number * 1_000), 1000)")
            }
            #expect(!isDone.withLock { $0 })
            try reader.sql.executeScript("commit")
            #expect(isDone.wait(milliseconds: 30_000) { $0 ? true : nil } == true)
            thread.join()
            #expect(try partitions(of: gone, other) == 0)
            #expect(try partitions(of: stays.id, other) > 20)
        }
    }

    /// Checks that an interrupted removal of tables is continued, as is a prune that was begun there.
    @Test(arguments: [false, true]) func anInterruptedRemovalResumes(isPruned: Bool) throws {
        try withGone { url, connection, reader, other, gone in
            try connection.sql.executeScript("select pathmirror.ensure_log_partition(\(gone), 68000, 1000)")
            let before = try partitions(of: gone, other)
            #expect(before > 1)
            try reader.sql.executeScript("begin isolation level repeatable read; select count(*) from pathmirror.log")
            if isPruned {
                let first = try other.sql.execute(
                    """
                    select parent.relname, child.relname from pg_inherits join pg_class as child on child.oid = inhrelid
                        join pg_class as parent on parent.oid = inhparent
                    where child.relname ~ '^log_\(gone)_[0-9]+$' order by 2 limit 1
                    """)
                try connection.sql.executeScript("set lock_timeout = '100ms'")
                #expect(throws: PostgresError.self) {
                    try connection.sql.executeScript(
                        "alter table pathmirror.\(first.string(0, 0)) detach partition pathmirror.\(first.string(0, 1)) concurrently"
                    )
                }
                try connection.sql.executeScript("reset lock_timeout")
            }
            #expect(try connection.removeNamespace(gone))
            // Simulates an interruption by Ctrl-C.
            try connection.sql.executeScript("set statement_timeout = '50ms'")
            #expect(throws: LogStoreError.self) { _ = try connection.removeLeftovers(of: "gone") }
            #expect(try partitions(of: gone, other) == before)
            try reader.sql.executeScript("commit")
            #expect(try other.removeLeftovers(of: "gone"))
            #expect(try partitions(of: gone, other) == 0)
        }
    }

    /// Runs `body` with a namespace to be removed, a session that removes it, one that reads the log, and another
    /// session.
    private func withGone(
        _ body: (PostgresURL, LogConnection, _ reader: LogConnection, _ other: LogConnection, Int64) throws -> Void
    ) throws {
        try withDatabase { url in
            let sessions = [try LogConnection(url), try LogConnection(url), try LogConnection(url)]
            defer { for session in sessions { session.close() } }
            let gone = try #require(try sessions[0].namespace(named: "gone", creating: true)).id
            try body(url, sessions[0], sessions[1], sessions[2], gone)
        }
    }

    private func waits(_ connection: LogConnection) throws -> Bool {
        try connection.sql.execute(
            "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
        ).bool(0, 0)
    }

    private func partitions(of namespace: Int64, _ connection: LogConnection) throws -> Int64 {
        try connection.sql.execute(
            "select count(*) from pg_class where relkind = 'r' and relname ~ '^log_\(namespace)_[0-9]+$'"
        ).int64(0, 0)
    }
}
