import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import LogStore

/// Checks that a namespace that follows an upstream still follows it after a move to another database.
@Suite struct FollowedMoveTests {
    private static let fence: [UInt8] = (1...16).map { $0 }

    /// Runs `body` with two databases, of which the first has a namespace that follows with one committed message.
    private func withBoth(
        _ body: (PostgresURL, PostgresURL, LogConnection, LogConnection, BatchWriter) throws -> Void
    ) throws {
        try withDatabase { firstURL in
            try withDatabase { secondURL in
                let (first, second) = (try LogConnection(firstURL), try LogConnection(secondURL))
                defer {
                    first.close()
                    second.close()
                }
                let id = try first.startFollowing("test", keepRules: true)
                #expect(try first.claimsFollow(id, observed: nil, fence: Self.fence, gateway: "a"))
                var writer = BatchWriter(namespace: id)
                #expect(
                    try first.commit(writer.set("a", .int(1)).following(Self.fence, after: 0, upto: 1)) == .committed)
                try body(firstURL, secondURL, first, second, writer)
            }
        }
    }

    @Test func theRowComesAlongWithoutItsFence() throws {
        try withBoth { firstURL, secondURL, first, second, writer in
            try first.addDatabase(
                DatabaseRecord(
                    name: "b", host: "127.0.0.1", port: "5432", databaseName: "x",
                    installation: try second.installation()))
            let sessions = try [firstURL, firstURL, secondURL].map { try LogConnection($0) }
            defer { for session in sessions { session.close() } }
            try NamespaceMover(
                "test", primary: sessions[0], from: .init(name: DatabaseRecord.primary, connection: sessions[1]),
                to: .init(name: "b", connection: sessions[2]), clock: { Clock.monotonicMilliseconds },
                progress: { _ in }
            ).run(.move)
            #expect(try first.follows().isEmpty)
            let record = try #require(try second.follow("test"))
            #expect(record.fence == nil && record.gateway == nil && record.keepRules)
            #expect(try second.namespace(named: "test")?.following == .upstreamWithOwnRules)
            // In the new database, too, only a follower writes.
            var moved = BatchWriter(namespace: record.namespaceID)
            moved.head = writer.head
            moved.root = writer.root
            var other = moved
            #expect(try second.commit(other.set("b", .int(1))) == .following)
            let new = Batch.makeID()
            #expect(try second.claimsFollow(record.namespaceID, observed: nil, fence: new, gateway: "b"))
            #expect(try second.commit(moved.set("b", .int(2)).following(new, after: 0, upto: 1)) == .committed)
            #expect(try second.loadTree(record.namespaceID).root == moved.root)
        }
    }

    /// The source may fail to commit after the last round, and another round follows.
    @Test func theLastRoundMayBeRepeated() throws {
        try withBoth { _, _, first, second, start in
            var writer = start
            let made = try second.sql.execute(
                """
                with made as (
                    insert into pathmirror.namespace (name, created_at) values ('.moving/test', '-infinity') returning id
                )
                insert into pathmirror.namespace_copy (namespace_id, namespace, move, source, source_id, stream_key)
                select id, 'test', gen_random_uuid(), 'x', $1, gen_random_uuid() from made returning namespace_id
                """, [.int8(writer.namespace)])
            let id = try made.int64(0, 0)
            let copy = try NamespaceCopy(first, writer.namespace, second, id) { _ in }
            for number in 2...3 as ClosedRange<Int64> {
                _ = try copy.round()
                #expect(try second.following(id) == .nothing)
                try first.sql.executeScript("begin")
                try copy.lastRound(farewell: "00000000-0000-0000-0000-00000000000\(number)")
                try first.sql.executeScript("rollback")
                #expect(try second.following(id) == .upstreamWithOwnRules)
                let next = writer.set("a", .int(number)).following(Self.fence, after: number - 1, upto: number)
                #expect(try first.commit(next) == .committed)
            }
            _ = try copy.round()
            #expect(try second.loadTree(id).root == writer.root)
        }
    }
}
