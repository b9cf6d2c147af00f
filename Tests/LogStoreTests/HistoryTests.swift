import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of whether a log continues from a given state.
@Suite struct HistoryTests {
    private let a = Batch.makeID()
    private let b = Batch.makeID()
    private let origin = Batch.makeID()

    private func record(
        head: Int64 = 10, headBatch: [UInt8]? = nil, retainedFrom: Int64 = 1, prunedBatch: [UInt8]? = nil,
        batch: [UInt8]? = nil
    ) -> HistoryRecord {
        HistoryRecord(
            head: head, headBatch: headBatch, retainedFrom: retainedFrom, prunedBatch: prunedBatch, origin: origin,
            batch: batch)
    }

    @Test func byTheEntry() {
        #expect(record(batch: a).relation(of: LogPosition(seq: 5, batch: a)) == .continues)
        #expect(record(batch: b).relation(of: LogPosition(seq: 5, batch: a)) == .rolledBack)
        #expect(record().relation(of: LogPosition(seq: 5, batch: a)) == .rolledBack)
        #expect(record().relation(of: LogPosition(seq: 11, batch: a)) == .rolledBack)
        #expect(record().relation(of: LogPosition(seq: 11, batch: nil)) == .rolledBack)
        #expect(record(batch: b).relation(of: LogPosition(seq: 5, batch: nil)) == .continues)
    }

    @Test func whereTheEntryIsPruned() {
        #expect(record(headBatch: a, retainedFrom: 11).relation(of: LogPosition(seq: 10, batch: a)) == .continues)
        #expect(record(headBatch: b, retainedFrom: 11).relation(of: LogPosition(seq: 10, batch: a)) == .rolledBack)
        #expect(record(retainedFrom: 6, prunedBatch: a).relation(of: LogPosition(seq: 5, batch: a)) == .continues)
        #expect(record(retainedFrom: 6, prunedBatch: b).relation(of: LogPosition(seq: 5, batch: a)) == .rolledBack)
        #expect(record(retainedFrom: 6).relation(of: LogPosition(seq: 5, batch: a)) == .unknown)
        #expect(record(retainedFrom: 6, prunedBatch: a).relation(of: LogPosition(seq: 3, batch: a)) == .unknown)
    }

    @Test func anEmptyNamespaceIsKnownByItsKey() {
        #expect(record().relation(of: LogPosition(seq: 0, batch: origin)) == .continues)
        #expect(record(head: 0, headBatch: a).relation(of: LogPosition(seq: 0, batch: a)) == .rolledBack)
    }

    /// Checks that the namespace's row and the log hold the same batch id, whether gateways, SQL or imports write.
    @Test func theHeadsBatchIsTheLogs() throws {
        try withSession { connection in
            let record = try #require(try connection.namespace(named: "test", creating: true))
            let empty = try #require(try connection.history(record.id, at: 0))
            #expect(
                empty.relation(of: LogPosition(seq: 0, batch: try connection.loadTree(record.id).batch)) == .continues)
            var seen: [[UInt8]] = []
            for _ in 0..<2 {
                _ = try connection.sql.execute("select pathmirror.set('test', '/a', '1')")
                let head = try #require(try connection.heads([record.id]).first).head
                let batch = try #require(head.batch)
                #expect(try connection.history(record.id, at: head.seq)?.batch == batch)
                #expect(try connection.loadTree(record.id).batch == batch)
                seen.append(batch)
            }
            #expect(seen[0] != seen[1])
            let importer = try Importer(connection, record, at: Path(splitting: "b"))
            try importer.add(Array("/b/c".utf8), .int(1))
            try importer.finish()
            let head = try #require(try connection.heads([record.id]).first).head
            #expect(try connection.history(record.id, at: head.seq)?.batch == head.batch)
            let history = try connection.history(record.id, at: 1)
            #expect(history?.relation(of: LogPosition(seq: 1, batch: seen[0])) == .continues)
            #expect(history?.relation(of: LogPosition(seq: 1, batch: seen[1])) == .rolledBack)
            for (batch, continues) in zip(seen, [true, false]) {
                var log = LogFollower(record.id, at: LogPosition(seq: 1, batch: batch)) { $0.checksHistory = true }
                switch try log.next(on: connection) {
                case .entries(let entries): #expect(continues && entries.map(\.entry.seq) == [2, 3])
                case .rolledBack(let history): #expect(!continues && history?.head == 3)
                default: Issue.record("neither entries nor another history")
                }
            }
        }
    }

    /// Checks that a batch based on another history is refused even if the head has the expected seq.
    @Test func aBatchOnAnotherHistoryIsRefused() throws {
        try withSession { connection in
            let record = try #require(try connection.namespace(named: "test", creating: true))
            _ = try connection.sql.execute("select pathmirror.set('test', '/a', '1')")
            let head = try #require(try connection.heads([record.id]).first).head
            let entry = Batch.Record(
                operation: .set, path: Path(splitting: "b"),
                changes: ChangeCodec.encode([Change(path: Path(splitting: "b"), value: .int(1))]), origin: nil)
            let lost = Batch(
                namespace: record.id, expectedHead: 1, expectedBatch: Batch.makeID(), id: Batch.makeID(),
                records: [entry], rows: RowChanges())
            #expect(try connection.commit(lost) == .headMoved)
            let right = Batch(
                namespace: record.id, expectedHead: 1, expectedBatch: head.batch, id: Batch.makeID(), records: [entry],
                rows: RowChanges())
            #expect(try connection.commit(right) == .committed)
            #expect(try connection.heads([record.id]).first?.head.batch == right.id)
        }
    }
}
