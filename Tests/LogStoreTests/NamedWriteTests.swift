import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Writes that have names are done once.
@Suite struct NamedWriteTests {
    private static let writer = "writer-1"

    private func name(_ number: Int64, _ writer: String = writer) throws -> WriteName {
        try #require(WriteName(writer: writer, number: number))
    }

    private func named(_ batch: Batch, _ names: Set<WriteName>) -> Batch {
        Batch(
            namespace: batch.namespace, expectedHead: batch.expectedHead, expectedBatch: batch.expectedBatch,
            id: batch.id, records: batch.records, rows: batch.rows, names: names)
    }

    /// By rows and by COPY, with and without the head's lock: the second one writes nothing and leaves no transaction open.
    @Test(arguments: [1, 100], [false, true]) func aSecondTimeIsNoticed(copyThreshold: Int, isLocked: Bool) throws {
        try withSession {
            $0.copyThreshold = copyThreshold
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            let wide = Node(children: (0..<5).map { (Key("k\($0)"), Node.int($0)) })
            func commit(_ batch: Batch) throws -> LogConnection.CommitOutcome {
                if isLocked { _ = try connection.lockHead(batch.namespace, expectedHead: batch.expectedHead) }
                return try connection.commit(batch, isLocked: isLocked)
            }
            #expect(try commit(named(writer.set("a", wide), [name(1), name(2)])) == .committed)
            let before = writer
            #expect(try commit(named(writer.set("b", wide), [name(2), name(3)])) == .alreadyDone)
            #expect(!connection.sql.isInTransaction)
            writer = before
            #expect(try connection.namespace(id: writer.namespace)?.head == 1)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
            // Of what was not written nothing is known.
            #expect(try commit(named(writer.set("b", wide), [name(3)])) == .committed)
            let done = try connection.doneWrites(writer.namespace, [name(9)])
            #expect(try (1...4).map { done.seq(of: try name($0)) } == [2, 2, 2, nil])
        }
    }

    /// Numbers that were refused stay open, those of other writers and namespaces don't count.
    @Test func onlyWhatWasDoneIsDone() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var other = BatchWriter(try connection.make("other"))
            #expect(try connection.commit(named(writer.set("a", .int(1)), [name(2), name(7), name(3)])) == .committed)
            #expect(try connection.commit(named(other.set("a", .int(1)), [name(2)])) == .committed)
            let more = try [name(1), name(4), name(2, "writer-2")]
            #expect(try connection.commit(named(writer.set("a", .int(2)), Set(more))) == .committed)
            let done = try connection.doneWrites(writer.namespace, [name(1), name(1, "writer-2"), name(1, "writer-3")])
            #expect(try (1...8).filter { done.seq(of: try name($0)) != nil } == [1, 2, 3, 4, 7])
            #expect(try done.seq(of: name(2, "writer-2")) == 2)
            #expect(try done.seq(of: name(1, "writer-2")) == nil)
            #expect(try done.seq(of: name(1, "writer-3")) == nil)
            #expect(try connection.doneWrites(other.namespace, [name(2)]).seq(of: name(7)) == nil)
        }
    }

    /// A writer whose writes are mostly refused leaves many gaps: they are closed rather than kept without bound.
    @Test func gapsAreBounded() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var generator = SeededGenerator(seed: 5)
            var number: Int64 = 0
            var largest: Int64 = 0
            for _ in 0..<40 {
                let names = try (0..<100).map { _ in
                    number += Int64(2 + generator.below(1_000))
                    return try name(number)
                }
                #expect(try connection.commit(named(writer.set("a", .int(number)), Set(names))) == .committed)
                largest = max(
                    largest, try count(connection, "select pg_column_size(done) from pathmirror.named_write"))
            }
            #expect(largest < 8_000, "\(largest)")
            let done = try connection.doneWrites(writer.namespace, [name(1)])
            #expect(try done.seq(of: name(number)) == 40)
            #expect(try done.seq(of: name(number + 1)) == nil)
        }
    }

    @Test func unusedWritersAreForgotten() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for number in 1...3 as ClosedRange<Int64> {
                let batch = named(writer.set("a", .int(number)), [try name(number, "writer-\(number)")])
                #expect(try connection.commit(batch) == .committed)
            }
            try connection.sql.execute(
                "update pathmirror.named_write set used_on = current_date - 31 where writer <> 'writer-2'")
            // Who comes back in time is known as long again.
            #expect(try connection.commit(named(writer.set("a", .int(9)), [name(9, "writer-3")])) == .committed)
            #expect(try connection.forgetWriters(unusedForDays: 30) == 1)
            #expect(try connection.forgetWriters(unusedForDays: 30) == 0)
            let names = Set(try (1...3).map { try name($0, "writer-\($0)") })
            let done = try connection.doneWrites(writer.namespace, names)
            #expect(try (1...3).map { done.seq(of: try name($0, "writer-\($0)")) } == [nil, 2, 4])
        }
    }

    /// What is known is bounded, and never more than was learned.
    @Test func learningIsBounded() throws {
        var all = DoneWrites()
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let names = try (0..<(DoneWrites.capacity + 10)).map { try name(1, "writer-\($0)") }
            #expect(try connection.commit(named(writer.set("a", .int(1)), Set(names))) == .committed)
            all.learn(try connection.doneWrites(writer.namespace, Set(names.prefix(10))))
            #expect(names.map { all.seq(of: $0) != nil }.count { $0 } == 10)
            all.learn(try connection.doneWrites(writer.namespace, Set(names.dropFirst(10))))
            #expect(names.map { all.seq(of: $0) != nil }.count { $0 } == DoneWrites.capacity)
            #expect(all.seq(of: names[0]) == nil)
        }
    }
}
