import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that commits of a primary without its synchronous standby are never reported as committed.
@Suite(.serialized) struct LocalCommitTests {
    private static func localCommit(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch {
            let error = LogStoreError(error)
            return error.isLocalCommit && error.isConnectionLost
        }
    }

    /// Checks each form of commit: in a pipeline, after a COPY, alone, and without transaction statements.
    @Test func everyWayToCommit() throws {
        let server = try LonelyServer()
        try PostgresConnection(server.url).executeScript("create table t (n bigint)")
        try server.synchronous(true)
        let ways: [(PostgresConnection) throws -> Void] = [
            { try $0.pipeline([.query("begin"), .query("insert into t values (1)"), .query("commit")]) },
            { try $0.execute("insert into t values (2)") },
            { try $0.executePrepared(PostgresStatement("add", "insert into t values (3)")) },
            { try $0.executeScript("insert into t values (4)") },
            { try $0.pipeline([.query("insert into t values (5)")]) },
            {
                try $0.copyIn("copy t from stdin (format binary)") { rows in
                    rows.beginRow()
                    rows.appendInt8(6)
                    try rows.endRow()
                }
            },
            {
                try $0.executeScript("begin; insert into t values (7)")
                try $0.execute("commit")
            },
        ]
        for (number, way) in ways.enumerated() {
            let connection = try PostgresConnection(server.url)
            let isLocal = try server.cancellingWaits { Self.localCommit { try way(connection) } }
            #expect(isLocal, "way \(number + 1)")
            #expect(!connection.isOpen)
        }
        let rows = try PostgresConnection(server.url).execute("select count(*) from t").int64(0, 0)
        #expect(rows == Int64(ways.count), "all of it is there, which is why nobody may be told")
    }

    /// Checks that the log's connections receive the warning regardless of the message settings of the role or the
    /// database.
    @Test func sessionsWithoutMessagesNoticeItToo() throws {
        let server = try LonelyServer()
        let administrator = try PostgresConnection(server.url)
        try administrator.execute("alter system set client_min_messages = 'error'")
        try administrator.execute("select pg_reload_conf()")
        var writer = BatchWriter(try LogConnection(server.url).make())
        try server.synchronous(true)
        let connection = try LogConnection(server.url)
        let batch = writer.set("a", .int(1))
        #expect(try server.cancellingWaits { Self.localCommit { _ = try connection.commit(batch) } })
    }

    /// Checks that batches announce nothing within their transactions, so they do not wait for transactions with
    /// notifications, which PostgreSQL commits one at a time.
    @Test func aCommitDoesNotWaitForAnnouncements() throws {
        let server = try LonelyServer()
        let administrator = try PostgresConnection(server.url)
        defer { administrator.close() }
        try administrator.executeScript("create table t (n bigint)")
        var settings = LogConnection.Settings()
        settings.synchronousCommit = "local"
        let connection = try LogConnection(server.url, settings: settings)
        defer { connection.close() }
        var writer = BatchWriter(try connection.make())
        try server.synchronous(true)
        let url = server.url
        let waiting = Thread(name: "waiting") {
            let other = try? PostgresConnection(url)
            try? other?.executeScript("begin; insert into t values (1); notify pathmirror, '0 0'; commit")
        }
        func isWaiting() throws -> Bool {
            try administrator.execute("select exists (select from pg_stat_activity where wait_event = 'SyncRep')::text")
                .string(0, 0) == "true"
        }
        #expect(try eventually { try isWaiting() })
        #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
        // The connection's own announcement does not wait long either, and the connection remains usable.
        #expect(throws: LogStoreError.self) { try connection.announce([writer.namespace: 1]) }
        #expect(connection.isOpen)
        #expect(try isWaiting(), "it has been waiting all the time")
        try server.synchronous(false)
        waiting.join()
    }

    /// Checks that several batches of a transaction are all stored, and reported only after a search for each.
    @Test func severalBatchesInOneTransaction() throws {
        let server = try LonelyServer()
        let first = try LogConnection(server.url)
        var writers = try (0..<3).map { BatchWriter(try first.make("n\($0)")) }
        try server.synchronous(true)
        let batches = writers.indices.map { writers[$0].set("a", .int(1)) }
        _ = try first.withoutPartition(batches)
        let isLocal = try server.cancellingWaits {
            Self.localCommit { _ = try first.commitJointly(batches, lockMilliseconds: 1_000) }
        }
        #expect(isLocal && !first.isOpen)
        try server.synchronous(false)
        let second = try LogConnection(server.url)
        for batch in batches { #expect(try second.findBatch(batch)) }
    }

    /// Checks that a search finds a stored batch only after it has waited for the standby.
    @Test func searchingWaits() throws {
        let server = try LonelyServer()
        var writer = BatchWriter(try LogConnection(server.url).make())
        try server.synchronous(true)
        let first = try LogConnection(server.url)
        let batch = writer.set("a", .int(1))
        #expect(try server.cancellingWaits { Self.localCommit { _ = try first.commit(batch) } })
        let second = try LogConnection(server.url)
        #expect(try second.namespace(id: writer.namespace)?.head == 1, "the server has it")
        #expect(try server.cancellingWaits { Self.localCommit { _ = try second.findBatch(batch) } })
        try server.synchronous(false)
        #expect(try LogConnection(server.url).findBatch(batch))
    }

    /// Checks that a reader can wait until another session's unconfirmed commit is confirmed.
    @Test func waitingForWhatIsThere() throws {
        let server = try LonelyServer()
        try server.synchronous(true)
        let connection = try LogConnection(server.url)
        #expect(try server.cancellingWaits { Self.localCommit { try connection.waitForStandbys() } })
        try server.synchronous(false)
        try LogConnection(server.url).waitForStandbys()
    }

    /// Checks that a read-only server does not count as a primary, and that a connection to one is closed.
    @Test func readOnlyServers() throws {
        let server = try LonelyServer()
        var writer = BatchWriter(try LogConnection(server.url).make())
        let open = try LogConnection(server.url)
        _ = try open.serverIdentity()
        let administrator = try PostgresConnection(server.url)
        try administrator.execute("alter system set default_transaction_read_only = on")
        try administrator.execute("select pg_reload_conf()")
        #expect(
            try eventually {
                try PostgresConnection(server.url).execute("show default_transaction_read_only").string(0, 0) == "on"
            })
        let refused = #expect(throws: LogStoreError.self) { try open.commit(writer.set("a", .int(1))) }
        #expect(refused?.isConnectionLost == true)
        #expect(!open.isOpen)
        let fence = ServerFence()
        let error = #expect(throws: LogStoreError.self) { try fence.open(server.url, LogConnection.Settings()) }
        #expect(error?.isRefusedServer == true)
        #expect(error.map { "\($0)".contains("default_transaction_read_only") } == true)
    }
}
