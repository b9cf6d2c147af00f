import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that the role `pathmirror_gateway` has the privileges that a gateway needs, and no others.
@Suite struct GatewayRoleTests {
    /// Runs `body` with a connection that has switched from the schema's owner to the gateway role.
    private func asGateway(_ body: (PostgresConnection) throws -> Void) throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("set session authorization pathmirror_gateway")
            try body(connection)
        }
    }

    @Test func readsEveryTable() throws {
        try asGateway { connection in
            let hidden = try connection.execute(
                """
                select relname from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p', 'v')
                    and not has_table_privilege(oid, 'select')
                """)
            #expect(hidden.rowCount == 0, "a migration must grant what it makes to pathmirror_gateway")
        }
    }

    @Test func makesPartitionsAndAppends() throws {
        try asGateway { connection in
            try connection.executeScript(
                """
                insert into pathmirror.namespace (name) values ('granted');
                select pathmirror.ensure_log_partition(id, 66000, 1000) from pathmirror.namespace where name = 'granted';
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
                select id, seq, now(), gen_random_uuid(), 'set', '/', '{}' from pathmirror.namespace, unnest(array[1, 66000]) as seq
                where name = 'granted'
                """)
        }
    }

    /// Checks all operations of gateways and administrators on feeds.
    @Test func worksFeeds() throws {
        try withSession { connection in
            try connection.sql.executeScript("set session authorization pathmirror_gateway")
            try connection.listen(to: [.commits, .feeds])
            let namespace = try #require(try connection.namespace(named: "granted", creating: true)).id
            let worker = Batch.makeID()
            let start = FeedProgressRecord(
                seq: 0, index: 0, snapshotSeq: nil, done: [], handedTo: 0, readTo: LogPosition(seq: 0))
            try connection.beginFeedWorker(worker, FeedWorkerReach(address: "http://127.0.0.1:1", key: Secret([1])))
            #expect(try connection.heartbeatFeedWorker(worker))
            let definition = Array(#"{"retention": "7d"}"#.utf8)
            let feed = try #require(try connection.addFeed(namespace, name: "f", definition: definition, at: start))
            _ = try connection.redefineFeed(namespace, feed, definition: definition, keepsDone: true, stopsKeys: false)
            _ = try connection.seekFeed(namespace, feed, to: start)
            let claim = try #require(try connection.claimFeed(namespace, feed, by: worker)).claim
            let failedMessage = FailedMessageRecord(
                position: FeedPosition(seq: 1, index: 0), key: "k", state: "dead", attempts: 1,
                errors: Array("[]".utf8),
                message: Array("{}".utf8))
            // The second move finds the row by its key.
            for number in Int64(1)...2 {
                let move = FeedMove(
                    claim: claim, number: number, follows: number - 1, progress: start, delivered: 1, acknowledged: 1,
                    redelivered: 1, failedMessages: [failedMessage],
                    removed: [FeedPosition(seq: 2, index: 0)])
                #expect(try connection.moveFeeds([move]).isEmpty)
            }
            _ = try connection.sql.execute("select pathmirror.newest_feed_place('(0,1)')")
            try connection.reportFeeds([(claim, "running", nil, 0, 0)])
            #expect(try connection.feedStatus(namespace, feed)?.deadLetters == 1)
            #expect(try connection.blockedFeedKeys(namespace, feed) == ["k"])
            #expect(try connection.retryDeadLetters(namespace, feed, .all) == 1)
            try connection.reviveFailedMessages(namespace, feed)
            try connection.replayFailedMessages(namespace, feed, [failedMessage])
            #expect(try connection.dropDeadLetters(namespace, feed, .key("k")) == 0)
            #expect(try connection.feeds().map(\.name) == ["f"])
            try connection.saveSnapshot(namespace, at: 0, .null, for: .feed)
            try connection.dropFeedSnapshots(namespace)
            #expect(try connection.history(namespace, at: 0) != nil)
            _ = try connection.sql.execute("select seq from pathmirror.log_cursor where kind = 'feed'")
            #expect(try connection.removeFeed(namespace, feed))
            let other = Batch.makeID()
            try connection.beginFeedWorker(other, FeedWorkerReach(address: "", key: Secret([1])))
            for heartbeat in try connection.feedHeartbeats(otherThan: worker) {
                #expect(try connection.endFeedWorker(heartbeat))
            }
            try connection.endFeedWorker(worker)
        }
    }

    /// Checks that other roles see only the status of feeds: definitions contain secrets, and messages contain data
    /// that rules may deny.
    @Test(arguments: ["pathmirror_reader", "pathmirror_writer"]) func othersSeeHowFeedsFareOnly(role: String) throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("set session authorization \(role)")
            #expect(try connection.execute("select name, state, lag from pathmirror.feed_status").rowCount == 0)
            for table in ["feed", "feed_progress", "feed_message", "feed_worker"] {
                #expect(throws: PostgresError.self, "\(table)") {
                    try connection.execute("select from pathmirror.\(table)")
                }
            }
            #expect(throws: PostgresError.self) {
                try connection.execute(
                    "select pathmirror.move_feed(1, 1, null, null, 1, 1, 0, null, null, null, 1, 1, 1, 1, 1)")
            }
        }
    }

    @Test(arguments: [
        "alter table pathmirror.feed add column x int", "drop table pathmirror.feed_message",
        "truncate pathmirror.feed_progress", "create index on pathmirror.feed_message (key)",
        "drop view pathmirror.feed_status", "drop function pathmirror.newest_feed_place(tid)",
        "create or replace function pathmirror.newest_feed_place(at tid) returns tid language sql as 'select at'",
        "alter table pathmirror.feed_worker disable trigger all", "delete from pathmirror.log_part",
        "comment on table pathmirror.feed is ''",
    ])
    func cannotChangeWhatFeedsAreKeptIn(statement: String) throws {
        try asGateway { connection in
            #expect(throws: PostgresError.self) { try connection.executeScript(statement) }
        }
    }

    @Test(arguments: [
        "update pathmirror.log set path = '/x'", "delete from pathmirror.log", "truncate pathmirror.log",
        "update pathmirror.log_part set part = 1", "delete from pathmirror.rule",
        "update pathmirror.migration set name = 'x'", "alter table pathmirror.node add column x int",
        "drop table pathmirror.node", "create table pathmirror.mine (x int)",
    ])
    func cannotRewriteTheLogOrChangeTheSchema(statement: String) throws {
        try asGateway { connection in
            #expect(throws: PostgresError.self) { try connection.executeScript(statement) }
        }
    }
}
