import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// Tests of the rights to work on a feed, as PostgreSQL enforces them.
@Suite struct FeedWorkTests {
    private struct Feeds {
        let connection: LogConnection
        let namespace: Int64
        let worker = Batch.makeID()
        let other = Batch.makeID()

        init(_ connection: LogConnection) throws {
            self.connection = connection
            namespace = try #require(try connection.namespace(named: "orders", creating: true)).id
            for id in [worker, other] {
                try connection.beginFeedWorker(id, FeedWorkerReach(address: "http://127.0.0.1:1", key: Secret([1])))
            }
        }

        func add(_ name: String) throws -> Int64 {
            let start = FeedProgressRecord(
                seq: 0, index: 0, snapshotSeq: nil, done: [], handedTo: 0, readTo: LogPosition(seq: 0))
            return try #require(
                try connection.addFeed(namespace, name: name, definition: Array("{}".utf8), at: start))
        }

        func claim(_ feed: Int64, by worker: [UInt8]) throws -> FeedClaim? {
            try connection.claimFeed(namespace, feed, by: worker)?.claim
        }

        func move(
            _ claim: FeedClaim, to seq: Int64, failedMessage key: String? = nil, errors: String = "[]",
            follows: Int64 = 0
        ) -> FeedMove {
            let progress = FeedProgressRecord(
                seq: seq, index: 0, snapshotSeq: nil, done: [], handedTo: seq, readTo: LogPosition(seq: seq))
            let failedMessage = key.map {
                FailedMessageRecord(
                    position: FeedPosition(seq: seq, index: 0), key: $0, state: "dead", attempts: 1,
                    errors: Array(errors.utf8), message: Array("{}".utf8))
            }
            return FeedMove(
                claim: claim, number: seq, follows: follows, progress: progress, delivered: 1, acknowledged: 1,
                redelivered: 0,
                failedMessages: failedMessage.map { [$0] } ?? [], removed: [])
        }

        func dead(_ feed: Int64) throws -> [String] {
            try connection.failedMessages(namespace, feed, states: ["dead"]).map(\.failedMessage.key)
        }
    }

    /// Checks that a move is refused if the database was restored to an older state while the gateway kept running.
    @Test func aMoveFollowsTheOneBefore() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            let claim = try #require(try feeds.claim(try feeds.add("a"), by: feeds.worker))
            #expect(try connection.moveFeeds([feeds.move(claim, to: 1)]).isEmpty)
            #expect(try connection.moveFeeds([feeds.move(claim, to: 2, follows: 1)]).isEmpty)
            // The move is sent again because its answer was lost.
            #expect(try connection.moveFeeds([feeds.move(claim, to: 2, follows: 1)]).isEmpty)
            #expect(try connection.feedSeq(feeds.namespace, claim.feed) == 2)
            // The database returns to its state after the first move.
            try connection.sql.executeScript("update pathmirror.feed_progress set seq = 1, moves = 1")
            #expect(try connection.moveFeeds([feeds.move(claim, to: 3, follows: 2)]) == [claim])
            #expect(try connection.feedSeq(feeds.namespace, claim.feed) == 1)
            // The last move may follow either of two moves, as its gateway may not know whether the previous one
            // arrived.
            #expect(try connection.moveFeeds([feeds.move(claim, to: 3, follows: 1)]).isEmpty)
        }
    }

    @Test func aLivingWorkersFeedIsNotClaimed() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            let feed = try feeds.add("a")
            let first = try #require(try feeds.claim(feed, by: feeds.worker))
            #expect(try feeds.claim(feed, by: feeds.other) == nil)
            // A worker may claim its own feed again. Moves under the earlier claim are then refused.
            let second = try #require(try feeds.claim(feed, by: feeds.worker))
            #expect(second.generation > first.generation)
            #expect(try connection.moveFeeds([feeds.move(first, to: 1)]) == [first])
            #expect(try connection.moveFeeds([feeds.move(second, to: 1)]).isEmpty)
            // A worker that has ended has no claims, and an unknown worker gets none.
            try connection.endFeedWorker(feeds.worker)
            #expect(try feeds.claim(feed, by: Batch.makeID()) == nil)
            let third = try #require(try feeds.claim(feed, by: feeds.other))
            #expect(third.generation > second.generation)
            #expect(try connection.feedSeq(feeds.namespace, feed) == 1)
        }
    }

    @Test func whatAFormerOwnerSendsIsNotTaken() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            let (lost, kept) = (try feeds.add("lost"), try feeds.add("kept"))
            let former = try #require(try feeds.claim(lost, by: feeds.worker))
            let present = try #require(try feeds.claim(kept, by: feeds.worker))
            _ = try connection.seekFeed(
                feeds.namespace, lost,
                to: FeedProgressRecord(
                    seq: 5, index: 0, snapshotSeq: nil, done: [], handedTo: 5, readTo: LogPosition(seq: 5)))
            // A transaction with moves of two claims writes nothing for the lost claim and all rows for the other.
            let moves = [feeds.move(former, to: 9, failedMessage: "x"), feeds.move(present, to: 7, failedMessage: "y")]
            #expect(try connection.moveFeeds(moves) == [former])
            #expect(try connection.feedSeq(feeds.namespace, lost) == 5)
            #expect(try connection.feedSeq(feeds.namespace, kept) == 7)
            #expect(try feeds.dead(lost).isEmpty)
            #expect(try feeds.dead(kept) == ["y"])
            let status = try #require(try connection.feedStatus(feeds.namespace, kept))
            #expect(status.acknowledged == 1 && status.deadLetters == 1)
        }
    }

    /// Checks that a message is acknowledged in the same transaction that stores its dead message.
    @Test func aMoveIsAtomicWithItsFailedMessages() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            let claim = try #require(try feeds.claim(try feeds.add("a"), by: feeds.worker))
            #expect(throws: LogStoreError.self) {
                try connection.moveFeeds([feeds.move(claim, to: 1, failedMessage: "x", errors: "no JSON")])
            }
            #expect(try connection.feedSeq(feeds.namespace, claim.feed) == 0)
            #expect(try connection.moveFeeds([feeds.move(claim, to: 1, failedMessage: "x")]).isEmpty)
            #expect(try connection.feedSeq(feeds.namespace, claim.feed) == 1)
            #expect(try feeds.dead(claim.feed) == ["x"])
        }
    }

    @Test func theRowIsFoundWhereverItIs() throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let feeds = try Feeds(connection)
            let feed = try feeds.add("a")
            let claim = try #require(try feeds.claim(feed, by: feeds.worker))
            let reader = try PostgresConnection(url)
            defer { reader.close() }
            try reader.executeScript(
                "begin isolation level repeatable read; select count(*) from pathmirror.feed_progress")
            for seq in 1...300 as ClosedRange<Int64> {
                #expect(try connection.moveFeeds([feeds.move(claim, to: seq)]).isEmpty)
                // Another session creates a new version of the row now and then.
                if seq % 50 == 0 { try connection.reportFeeds([(claim, "running", nil, 0, 0)]) }
            }
            #expect(try connection.feedSeq(feeds.namespace, feed) == 300)
        }
    }

    /// Checks that a row locked by a frozen gateway does not block the checks and heartbeats of other gateways.
    @Test func aLockedRowIsPassedOver() throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let feeds = try Feeds(connection)
            let feed = try feeds.add("a")
            let frozen = try PostgresConnection(url)
            defer { frozen.close() }
            try frozen.executeScript("begin; select from pathmirror.feed_progress for update")
            try connection.sql.executeScript("set statement_timeout to '20s'")
            #expect(try feeds.claim(feed, by: feeds.worker) == nil)
            try frozen.executeScript("rollback")
            #expect(try feeds.claim(feed, by: feeds.worker) != nil)
        }
    }

    /// Checks that requests are not forwarded to a gateway of an older version without a registered key, because
    /// forwarding would require the client's own credential.
    @Test func aWorkerWithoutAKeyIsNotReached() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            _ = try feeds.claim(try feeds.add("a"), by: feeds.worker)
            let reach = FeedWorkerReach(address: "http://127.0.0.1:1", key: Secret([1]))
            #expect(try connection.feeds().map(\.reach) == [reach])
            for column in ["peer_key", "peer_address"] {
                try connection.sql.executeScript("update pathmirror.feed_worker set \(column) = null")
                #expect(try connection.feeds().map(\.reach) == [nil] && connection.feeds().allSatisfy(\.isWorkerAlive))
            }
        }
    }

    @Test func workersWithoutHeartbeatAreEnded() throws {
        try withSession { connection in
            let feeds = try Feeds(connection)
            let seen = try connection.feedHeartbeats(otherThan: feeds.worker)
            #expect(seen.count == 1)
            #expect(try connection.heartbeatFeedWorker(feeds.other))
            // The worker has sent a heartbeat since.
            #expect(try !connection.endFeedWorker(seen[0]))
            let again = try connection.feedHeartbeats(otherThan: feeds.worker)
            #expect(try connection.endFeedWorker(again[0]))
            #expect(try !connection.heartbeatFeedWorker(feeds.other))
        }
    }
}
