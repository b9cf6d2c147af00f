import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Checks the rows of namespaces that follow an upstream: who may follow, and what the rows report.
@Suite struct FollowRecordTests {
    private static let credentials = #"{"kind": "service-account", "file": "account.json"}"#

    @Test func aNamespaceBeginsToFollowAndEnds() throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop", keepRules: true, maxBytesPerDay: 1_000)
            let record = try #require(try connection.follow("shop"))
            #expect(record.namespaceID == id && record.namespace == "shop")
            #expect(record.upstream == "https://example.firebaseio.com" && record.keepRules && !record.isPaused)
            #expect(record.credentials == Self.credentials && record.maxBytesPerDay == 1_000)
            #expect(record.fence == nil && record.gateway == nil && record.position == 0)
            #expect(record.status == FollowStatus() && record.reportAge == nil)
            #expect(try connection.following(id) == .upstreamWithOwnRules)
            #expect(try connection.namespace(named: "shop")?.following == .upstreamWithOwnRules)
            #expect(try connection.heads([id]).first?.following == .upstreamWithOwnRules)
            #expect(try connection.follows().map(\.namespaceID) == [record.namespaceID])
            #expect(try connection.setFollowPaused(id, true))
            #expect(try connection.follow("shop")?.isPaused == true)
            #expect(try connection.removeFollow(id))
            #expect(try connection.follow("shop") == nil && connection.follows().isEmpty)
            #expect(try connection.following(id) == .nothing)
            #expect(try !connection.removeFollow(id) && !connection.setFollowPaused(id, true))
        }
    }

    @Test func dataIsReplacedOnRequestOnly() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make("shop"))
            #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
            #expect(try connection.follow(replacing: false) == .hasData)
            #expect(try connection.following(writer.namespace) == .nothing)
            #expect(try connection.follow(replacing: true) == .added(writer.namespace))
            #expect(try connection.follow(replacing: true) == .alreadyFollows)
            #expect(try connection.following(writer.namespace) == .upstream)
        }
    }

    /// Two gateways that have read the same row: one gets the fence.
    @Test func oneClaimSucceeds() throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop")
            let (first, second) = (Batch.makeID(), Batch.makeID())
            #expect(try connection.claimsFollow(id, observed: nil, fence: first, gateway: "a"))
            #expect(try !connection.claimsFollow(id, observed: nil, fence: second, gateway: "b"))
            #expect(try connection.follow("shop")?.fence == first)
            #expect(try connection.follow("shop")?.gateway == "a")
            #expect(try connection.claimsFollow(id, observed: first, fence: second, gateway: "b"))
            #expect(try !connection.claimsFollow(id, observed: first, fence: first, gateway: "a"))
            #expect(try connection.followedPosition(id, fence: first) == nil)
            #expect(try connection.followedPosition(id, fence: second) == 0)
            #expect(try !connection.releaseFollow(id, fence: first))
            #expect(try connection.releaseFollow(id, fence: second))
            #expect(try connection.follow("shop")?.fence == nil)
        }
    }

    /// What happened between a gateway's read of the rows and its claim.
    @Test func aClaimSeesWhatHasChanged() throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop")
            var record = try #require(try connection.follow("shop"))
            _ = try connection.setFollowPaused(id, true)
            #expect(try connection.claimFollow(record, fence: Batch.makeID(), gateway: "a") == .isOthers)
            _ = try connection.removeFollow(id)
            #expect(try connection.claimFollow(record, fence: Batch.makeID(), gateway: "a") == .isOthers)
            try connection.sql.executeScript("select pg_sleep(0.002)")
            _ = try connection.startFollowing("shop")
            #expect(try connection.claimFollow(record, fence: Batch.makeID(), gateway: "a") == .isOthers)
            record = try #require(try connection.follow("shop"))
            #expect(try connection.claimFollow(record, fence: Batch.makeID(), gateway: "a") == .claimed)
        }
    }

    /// The heartbeats of other followers must not wait for a batch of one.
    @Test func nothingWaitsForALockedRow() throws {
        try withDatabase { url in
            let sessions = [try LogConnection(url), try LogConnection(url)]
            defer { for session in sessions { session.close() } }
            let id = try sessions[0].startFollowing("shop")
            let fence = Batch.makeID()
            #expect(try sessions[0].claimsFollow(id, observed: nil, fence: fence, gateway: "a"))
            let record = try #require(try sessions[0].follow("shop"))
            try sessions[1].sql.executeScript("begin; select from pathmirror.follow for update")
            #expect(try sessions[0].reportFollow(id, fence: fence, FollowStatus()))
            #expect(try sessions[0].followPosition(id, fence: fence) == .isLocked)
            #expect(try sessions[0].claimFollow(record, fence: Batch.makeID(), gateway: "b") == .isLocked)
            #expect(try !sessions[0].reportFollow(id, fence: Batch.makeID(), FollowStatus()))
            try sessions[1].sql.executeScript("rollback")
            #expect(try sessions[0].follow("shop")?.heartbeat == record.heartbeat, "nothing was stored")
            #expect(try sessions[0].followPosition(id, fence: fence) == .committed(0))
        }
    }

    @Test func reportsCountAsHeartbeatsOfTheFence() throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop")
            let fence = Batch.makeID()
            #expect(try connection.claimsFollow(id, observed: nil, fence: fence, gateway: "a"))
            let before = try #require(try connection.follow("shop")).heartbeat
            var status = FollowStatus()
            status.state = "following"
            status.message = "all is well"
            status.connectedSince = 1_700_000_000_123
            status.lastMessageAt = 1_700_000_001_456
            status.receivedOn = "2026-07-31"
            status.receivedToday = 5
            status.received = 6
            status.entries = 7
            status.resyncs = 1
            status.lastResyncSeq = 3
            status.lagMilliseconds = 12
            status.parts = #"["a"]"#
            status.rulesDigest = "d"
            #expect(try connection.reportFollow(id, fence: fence, status))
            let record = try #require(try connection.follow("shop"))
            #expect(record.status == status && record.heartbeat == before + 1 && record.reportAge != nil)
            let since = record.stateSince
            #expect(try connection.reportFollow(id, fence: fence, status))
            #expect(try connection.follow("shop")?.stateSince == since)
            #expect(try !connection.reportFollow(id, fence: Batch.makeID(), FollowStatus()))
            #expect(try connection.follow("shop")?.status == status)
        }
    }

    /// The view for people contains neither the fence nor the credentials.
    @Test func readersSeeTheStatusOnly() throws {
        try withSession { connection in
            _ = try connection.startFollowing("shop")
            try connection.sql.executeScript("set session authorization pathmirror_reader")
            let rows = try connection.sql.execute("select * from pathmirror.follow_status")
            let names = Set((0..<rows.columnCount).compactMap { rows.columnName($0) })
            #expect(rows.rowCount == 1 && names.isSuperset(of: ["namespace", "state", "upstream", "lag_milliseconds"]))
            #expect(names.isDisjoint(with: ["fence", "batch", "credentials"]))
            #expect(try connection.namespace(named: "shop")?.following == .upstream)
            for column in ["fence", "credentials"] {
                #expect(throws: PostgresError.self) {
                    try connection.sql.execute("select \(column) from pathmirror.follow")
                }
            }
        }
    }

    @Test func gatewaysMayDoAllOfIt() throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop", keepRules: true)
            try connection.sql.executeScript("set session authorization pathmirror_gateway")
            let fence = Batch.makeID()
            #expect(try connection.claimsFollow(id, observed: nil, fence: fence, gateway: "a"))
            #expect(try connection.reportFollow(id, fence: fence, FollowStatus()))
            var writer = BatchWriter(namespace: id)
            #expect(
                try connection.commit(writer.set("a", .int(1)).following(fence, after: 0, upto: 1)) == .committed)
            #expect(
                try connection.setRules(id, source: Array("{}".utf8), origin: Origin(json: Array("{}".utf8))) == 2)
            #expect(try connection.removeFollow(id))
        }
    }
}

extension LogConnection {
    /// Makes the namespace `shop` follow an upstream.
    fileprivate func follow(replacing: Bool) throws -> FollowAddition {
        try addFollow(
            namespace: "shop", upstream: "https://example.firebaseio.com", credentials: "{}", keepRules: false,
            maxBytesPerDay: nil, replaces: replacing)
    }
}
