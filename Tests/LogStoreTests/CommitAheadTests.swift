import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of batches that are sent one after another: each is written only if the batch before it was.
@Suite struct CommitAheadTests {
    private func record(_ number: Int64) -> Batch.Record {
        let changes = [Change(path: Path(splitting: "n"), value: .int(number))]
        return Batch.Record(operation: .set, path: Path(splitting: "n"), changes: ChangeCodec.encode(changes))
    }

    private func batch(_ namespace: Int64, after head: Int64, _ before: [UInt8]?, _ count: Int64 = 2) -> Batch {
        var rows = RowChanges()
        rows.seq = head + count
        return Batch(
            namespace: namespace, expectedHead: head, expectedBatch: before, id: Batch.makeID(),
            records: (1...count).map { record(head + $0) }, rows: rows)
    }

    private func withNamespace(_ body: (PostgresURL, LogConnection, Int64, Batch) throws -> Void) throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let namespace = try #require(try connection.namespace(named: "test", creating: true)).id
            let first = batch(namespace, after: 0, nil)
            // The first batch on a connection takes longer.
            #expect(!connection.canSend(first))
            #expect(try connection.commit(first) == .committed)
            try body(url, connection, namespace, first)
        }
    }

    @Test func eachFollowsThePreviousOne() throws {
        try withNamespace { _, connection, namespace, first in
            let second = batch(namespace, after: 2, first.id)
            let third = batch(namespace, after: 4, second.id, 5)
            #expect(connection.canSend(second) && connection.canSend(third))
            try connection.sendCommit(second)
            try connection.sendCommit(third)
            #expect(connection.commitsInFlight == 2)
            #expect(try connection.receiveCommit() == .committed)
            let committedAt = try #require(connection.committedAt)
            #expect(try connection.receiveCommit() == .committed)
            #expect(try #require(connection.committedAt) >= committedAt)
            #expect(try connection.namespace(id: namespace)?.head == 9)
            let entries = try connection.read(namespace, after: 0)
            let batches = [first.id, first.id, second.id, second.id] + Array(repeating: third.id, count: 5)
            #expect(entries.map(\.batchID) == batches)
            #expect(try connection.findBatch(second) && connection.findBatch(third))
        }
    }

    /// Checks that a batch after a refused one is not written, even if another connection has written as many entries
    /// as the refused batch had, so that the head has the expected number.
    @Test(arguments: [1, 2])
    func batchesAfterARefusedOneAreNotWritten(others: Int64) throws {
        try withNamespace { url, connection, namespace, first in
            let rival = try LogConnection(url)
            defer { rival.close() }
            #expect(try rival.commit(batch(namespace, after: 2, first.id, others)) == .committed)
            let second = batch(namespace, after: 2, first.id)
            let third = batch(namespace, after: 4, second.id)
            try connection.sendCommit(second)
            try connection.sendCommit(third)
            #expect(try connection.receiveCommit() == .headMoved)
            #expect(throws: LogStoreError.self) { try connection.receiveCommit() }
            #expect(connection.isOpen && connection.commitsInFlight == 0)
            #expect(try !connection.findBatch(second) && !connection.findBatch(third))
            #expect(try connection.namespace(id: namespace)?.head == 2 + others)
            // The batch is not written either if it is sent alone, although its number matches the head.
            if others == 2 { #expect(try connection.commit(third) == .headMoved) }
        }
    }

    @Test func whatTakesLongerIsNotSentAhead() throws {
        try withNamespace { _, connection, namespace, first in
            var rows = RowChanges()
            rows.seq = 3
            for number in 0...LogConnection.Settings().copyThreshold {
                rows.row(Array("k\(number)".utf8), old: .null, new: .int(1))
            }
            let large = Batch(
                namespace: namespace, expectedHead: 2, expectedBatch: first.id, id: Batch.makeID(),
                records: [record(3)], rows: rows)
            #expect(!connection.canSend(large))
            // A missing partition must be created first.
            #expect(!connection.canSend(batch(namespace, after: 50_000_000, first.id)))
        }
    }
}
