import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that only its follower writes to a namespace that follows an upstream, whichever way a batch is committed,
/// and that each upstream message is committed once and in order.
@Suite struct FollowPassTests {
    /// The ways in which a batch is committed.
    enum Way: CaseIterable {
        /// One write to one row.
        case one
        case general
        case copy
        case locked
        case sentAhead
    }

    private static let fence: [UInt8] = (1...16).map { $0 }

    private func withFollowed(_ body: (LogConnection, BatchWriter) throws -> Void) throws {
        var settings = LogConnection.Settings()
        settings.copyThreshold = 4
        try withDatabase { url in
            let connection = try LogConnection(url, settings: settings)
            defer { connection.close() }
            let id = try connection.startFollowing("shop")
            #expect(try connection.claimsFollow(id, observed: nil, fence: Self.fence, gateway: "a"))
            let writer = BatchWriter(namespace: id)
            try body(connection, writer)
        }
    }

    private func batch(_ writer: inout BatchWriter, _ way: Way, _ value: Int64) -> Batch {
        let rows = way == .copy ? 6 : way == .general ? 2 : 1
        return writer.batch(
            (0..<rows).map { [Change(path: Path(splitting: "v/k\($0)"), value: .int(value))] })
    }

    private func commit(
        _ batch: Batch, _ way: Way, _ connection: LogConnection
    ) throws -> LogConnection.CommitOutcome {
        switch way {
        case .one, .general, .copy: return try connection.commit(batch)
        case .locked:
            _ = try connection.lockHead(batch.namespace, expectedHead: batch.expectedHead)
            return try connection.commit(batch, isLocked: true)
        case .sentAhead:
            // After a failure the connection no longer knows which partitions exist.
            _ = try connection.namespace(id: batch.namespace)
            try #require(connection.canSend(batch))
            try connection.sendCommit(batch)
            return try connection.receiveCommit()
        }
    }

    @Test(arguments: Way.allCases) func messagesAreCommittedOnceAndInOrder(way: Way) throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            let first = batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)
            #expect(try connection.commit(first) == .committed)
            let then = writer
            let second = batch(&writer, way, 1)
            #expect(try commit(second.following(Self.fence, after: 1, upto: 3), way, connection) == .committed)
            #expect(try connection.followedPosition(second.namespace, fence: Self.fence) == 3)
            // Again, with a gap before it, and at an older position.
            for after in [1, 4, 2] as [Int64] {
                let again = batch(&writer, way, 2).following(Self.fence, after: after, upto: after + 2)
                #expect(try commit(again, way, connection) == .superseded)
                writer = then
                _ = batch(&writer, way, 1)
            }
            let last = batch(&writer, way, 3).following(Self.fence, after: 3, upto: 4)
            #expect(try commit(last, way, connection) == .committed)
            let tree = try connection.loadTree(writer.namespace)
            #expect(tree.root == writer.root && tree.head == writer.head)
        }
    }

    @Test(arguments: Way.allCases) func anotherFenceIsRefused(way: Way) throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            #expect(
                try connection.commit(batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)) == .committed)
            let new = Batch.makeID()
            #expect(
                try connection.claimsFollow(writer.namespace, observed: Self.fence, fence: new, gateway: "b"))
            var late = writer
            #expect(
                try commit(batch(&late, way, 1).following(Self.fence, after: 0, upto: 1), way, connection)
                    == .superseded)
            #expect(
                try commit(batch(&writer, way, 2).following(new, after: 0, upto: 1), way, connection) == .committed)
            let tree = try connection.loadTree(writer.namespace)
            #expect(tree.root == writer.root)
        }
    }

    @Test(arguments: Way.allCases) func batchesWithoutTheRightAreRefused(way: Way) throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            #expect(
                try connection.commit(batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)) == .committed)
            var other = writer
            #expect(try commit(batch(&other, way, 1), way, connection) == .following)
            let tree = try connection.loadTree(writer.namespace)
            #expect(tree.root == writer.root)
            #expect(try connection.removeFollow(writer.namespace))
            #expect(try commit(batch(&writer, way, 1), way, connection) == .committed)
        }
    }

    /// A batch at another head leaves the position as it is.
    @Test func aMovedHeadTakesThePositionBack() throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            var other = writer
            #expect(
                try connection.commit(batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)) == .committed)
            #expect(
                try connection.commit(batch(&other, .one, 0).following(Self.fence, after: 1, upto: 2)) == .headMoved)
            let position = try connection.followedPosition(writer.namespace, fence: Self.fence)
            #expect(position == 1)
        }
    }

    /// Messages that are sent one batch after another on one connection.
    @Test func batchesInFlightContinueOneAnother() throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            #expect(
                try connection.commit(batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)) == .committed)
            for number in 1...5 as ClosedRange<Int64> {
                try connection.sendCommit(
                    batch(&writer, .general, number).following(Self.fence, after: number, upto: number + 1))
            }
            for _ in 1...5 { #expect(try connection.receiveCommit() == .committed) }
            #expect(try connection.followedPosition(writer.namespace, fence: Self.fence) == 6)
            let tree = try connection.loadTree(writer.namespace)
            #expect(tree.root == writer.root)
        }
    }

    @Test func largeWritesNeedTheRightToo() throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            let id = writer.namespace
            let cases: [(fence: [UInt8]?, after: Int64, outcome: LogConnection.CommitOutcome)] = [
                (nil, 0, .following), (Batch.makeID(), 0, .superseded), (Self.fence, 1, .superseded),
                (Self.fence, 0, .committed), (Self.fence, 0, .superseded), (Self.fence, 1, .committed),
            ]
            for one in cases {
                var next = writer
                let messages = one.fence.map { FollowPass.Messages(fence: $0, after: one.after, upto: one.after + 1) }
                let batch = next.set("big", .int(next.head + 1)).with(FollowPass(messages))
                let number = try connection.beginLarge(id, head: batch.expectedHead)
                try connection.stagePart(id, large: number, part: 0, changes: batch.records.first?.changes ?? [])
                try connection.stageRows(id, large: number, batch.rows)
                _ = try connection.lockHeadForLarge(id)
                let outcome = try connection.commitLarge(batch, large: number, parts: 1)
                #expect(outcome == one.outcome)
                if outcome == .committed { writer = next } else { connection.unlockHead() }
            }
            let root = try connection.loadTree(id).root
            #expect(root == writer.root)
        }
    }

    // MARK: Other writers

    /// SQL functions, imports and gateways of older versions get PM006.
    @Test func nothingElseMovesTheHead() throws {
        try withFollowed { (connection, start) throws in
            var writer = start
            #expect(
                try connection.commit(batch(&writer, .one, 0).following(Self.fence, after: 0, upto: 1)) == .committed)
            for sql in [
                "select pathmirror.set('shop', '/a', '1')", "select pathmirror.remove('shop', '/v')",
                "select pathmirror.update('shop', '/', '{\"a\": 1}')",
                "select pathmirror.advance(\(writer.namespace), \(writer.head), 1)",
                "update pathmirror.namespace set head = head + 1 where name = 'shop'",
            ] {
                let error = #expect(throws: PostgresError.self) { try connection.sql.execute(sql) }
                #expect(error?.sqlState == "PM006")
            }
            let record = try #require(try connection.namespace(named: "shop"))
            let importer = try Importer(connection, record, at: .root)
            #expect(throws: LogStoreError.self) { try importer.add(Array("/x".utf8), .int(1)) }
            let tree = try connection.loadTree(writer.namespace)
            #expect(tree.root == writer.root)
            // Updates of the row that leave the head as it is are allowed.
            try connection.sql.executeScript("update pathmirror.namespace set retained_from = retained_from")
        }
    }

    @Test func otherNamespacesAreNotAffected() throws {
        try withFollowed { (connection, _) throws in
            var writer = BatchWriter(try connection.make("other"))
            for way in Way.allCases {
                #expect(try commit(batch(&writer, way, 1), way, connection) == .committed)
            }
            _ = try connection.sql.execute("select pathmirror.set('other', '/a', '1')")
        }
    }

    // MARK: Rules

    @Test(arguments: [true, false]) func administratorsSetRulesWhereTheyAreKept(keepRules: Bool) throws {
        try withSession { connection in
            let id = try connection.startFollowing("shop", keepRules: keepRules)
            let outcome: String
            do {
                let origin = Origin(json: Array("{}".utf8))
                outcome = "\(try connection.setRules(id, source: Array("{}".utf8), origin: origin))"
            } catch LogStoreError.followsUpstream {
                outcome = "refused"
            }
            #expect(outcome == (keepRules ? "1" : "refused"))
            let head = try connection.namespace(id: id)?.head
            #expect(head == (keepRules ? 1 : 0))
        }
    }
}
