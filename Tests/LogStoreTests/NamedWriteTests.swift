import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that named writes are executed once.
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

    /// Checks that a repeated write, by rows or COPY, with or without the head's lock, writes nothing and leaves no
    /// open transaction.
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
            // Writes that were not committed are unknown.
            #expect(try commit(named(writer.set("b", wide), [name(3)])) == .committed)
            let done = try connection.doneWrites(writer.namespace, [name(9)])
            #expect(
                try (1...4).map { done.fate(of: try name($0)) }
                    == [.done(seq: 2), .done(seq: 2), .done(seq: 2), nil])
        }
    }

    /// Checks that skipped numbers remain open after a later number is done, and that other writers and namespaces do
    /// not count.
    @Test func onlyWhatWasDoneIsDone() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var other = BatchWriter(try connection.make("other"))
            #expect(try connection.commit(named(writer.set("a", .int(1)), [name(2), name(7), name(3)])) == .committed)
            #expect(try connection.commit(named(other.set("a", .int(1)), [name(2)])) == .committed)
            let before = writer
            for late in try [name(4), name(1), name(7)] {
                #expect(try connection.commit(named(writer.set("a", .int(2)), [late, name(9)])) == .alreadyDone)
                writer = before
            }
            let more = try [name(9), name(2, "writer-2")]
            #expect(try connection.commit(named(writer.set("a", .int(2)), Set(more))) == .committed)
            let done = try connection.doneWrites(writer.namespace, [name(1), name(1, "writer-2"), name(1, "writer-3")])
            let fates = try (1...10).map { done.fate(of: try name($0)) }
            #expect(
                fates == (1...10).map { [2, 3, 7, 9].contains($0) ? .done(seq: 2) : $0 < 9 ? .passedOver : nil })
            #expect(try done.fate(of: name(2, "writer-2")) == .done(seq: 2))
            #expect(try done.fate(of: name(1, "writer-2")) == .passedOver)
            #expect(try done.fate(of: name(1, "writer-3")) == nil)
            #expect(try connection.doneWrites(other.namespace, [name(2)]).fate(of: name(7)) == nil)
        }
    }

    /// Checks that the number of gaps of a writer with many refused writes is bounded: old gaps are closed, and the
    /// newest remain.
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
                let done = try connection.doneWrites(writer.namespace, [name(1)])
                let seq = writer.head
                #expect(names.allSatisfy { done.fate(of: $0) == .done(seq: seq) })
                for known in names where !names.contains(try name(known.number - 1)) {
                    #expect(try done.fate(of: name(known.number - 1)) == .passedOver)
                }
                #expect(try done.fate(of: name(number + 1)) == nil)
            }
            #expect(largest < 8_000, "\(largest)")
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
            // A writer that returns in time is kept for the full period again.
            #expect(try connection.commit(named(writer.set("a", .int(9)), [name(9, "writer-3")])) == .committed)
            #expect(try connection.forgetWriters(unusedForDays: 30) == 1)
            #expect(try connection.forgetWriters(unusedForDays: 30) == 0)
            let names = Set(try (1...3).map { try name($0, "writer-\($0)") })
            let done = try connection.doneWrites(writer.namespace, names)
            #expect(
                try (1...3).map { done.fate(of: try name($0, "writer-\($0)")) } == [nil, .done(seq: 2), .done(seq: 4)])
        }
    }

    /// Checks that a writer belongs to the first identity recorded for it, even if other identities write under it
    /// later.
    @Test func writersHaveAnOwner() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            func commit(_ number: Int64, _ identity: WriterIdentity?, _ of: String) throws {
                let batch = writer.set("a", .int(number))
                let owned = Batch(
                    namespace: batch.namespace, expectedHead: batch.expectedHead, expectedBatch: batch.expectedBatch,
                    id: batch.id, records: batch.records, rows: batch.rows, names: [try name(number, of)],
                    writers: identity.map { [of: $0] } ?? [:])
                #expect(try connection.commit(owned) == .committed)
            }
            try commit(1, .user("ada"), "writer-1")
            try commit(2, .user("eve"), "writer-1")
            // A gateway of an older version records no identity.
            try commit(3, nil, "writer-2")
            let noted = try connection.doneWrites(writer.namespace, [name(3, "writer-2")])
            #expect(noted.knows("writer-2") && !noted.isOwned("writer-2", by: .user("ada")))
            #expect(!noted.isOwned("writer-2", by: .anonymous))
            try commit(4, .user("ada"), "writer-2")
            try commit(5, nil, "writer-2")
            try commit(6, .user("eve"), "writer-2")
            let done = try connection.doneWrites(writer.namespace, [name(1), name(1, "writer-2"), name(1, "writer-3")])
            for owned in ["writer-1", "writer-2"] {
                #expect(done.isOwned(owned, by: .user("ada")) && !done.isOwned(owned, by: .user("eve")), "\(owned)")
            }
            #expect(!done.knows("writer-3"))
            #expect(try done.fate(of: name(2)) == .done(seq: 2))
            #expect(try (3...6).allSatisfy { try done.fate(of: name($0, "writer-2")) == .done(seq: 6) })
        }
    }

    /// Checks that the most recently used writers of a user and of a namespace are kept.
    @Test func writersAreBounded() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var other = BatchWriter(try connection.make("other"))
            func commit(_ batches: inout BatchWriter, _ of: String, _ identity: WriterIdentity) throws {
                let batch = batches.set("a", .int(1))
                let owned = Batch(
                    namespace: batch.namespace, expectedHead: batch.expectedHead, expectedBatch: batch.expectedBatch,
                    id: batch.id, records: batch.records, rows: batch.rows, names: [try name(1, of)],
                    writers: [of: identity])
                #expect(try connection.commit(owned) == .committed)
            }
            for number in 0..<6 { try commit(&writer, "of-eve-\(number)", .user("eve")) }
            for number in 0..<4 { try commit(&writer, "of-ada-\(number)", .user("ada")) }
            for number in 0..<6 { try commit(&writer, "of-nobody-\(number)", .anonymous) }
            for number in 0..<3 { try commit(&other, "of-eve-\(number)", .user("eve")) }
            var bounds = LogConnection.WriterBounds()
            (bounds.ofIdentity, bounds.ofNamespace) = (4, 100)
            #expect(try connection.forgetWriters(unusedForDays: 30, bounds: bounds) == 2)
            func left(_ namespace: Int64) throws -> [String] {
                let rows = try connection.sql.execute(
                    "select writer from pathmirror.named_write where namespace_id = $1 order by seq", [.int8(namespace)]
                )
                return try (0..<rows.rowCount).map { try rows.string($0, 0) }
            }
            #expect(
                try left(writer.namespace)
                    == (2..<6).map { "of-eve-\($0)" } + (0..<4).map { "of-ada-\($0)" }
                    + (0..<6).map { "of-nobody-\($0)" }, "what many share is bounded with the namespace")
            #expect(try left(other.namespace).count == 3)
            bounds.ofNamespace = 5
            #expect(try connection.forgetWriters(unusedForDays: 30, bounds: bounds) == 9)
            #expect(try left(writer.namespace) == (1..<6).map { "of-nobody-\($0)" })
        }
    }

    /// Checks that writers beyond a user's limit do not displace other writers of the namespace.
    @Test func aUserWithManyWritersEvictsNoOther() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for (of, user) in [("of-ada-x", "ada")] + (0..<12).map({ ("of-eve-\($0)", "eve") }) {
                let batch = writer.set("a", .int(1))
                let owned = Batch(
                    namespace: batch.namespace, expectedHead: batch.expectedHead, expectedBatch: batch.expectedBatch,
                    id: batch.id, records: batch.records, rows: batch.rows, names: [try name(1, of)],
                    writers: [of: .user(user)])
                #expect(try connection.commit(owned) == .committed)
            }
            // A row written by an older gateway, used before all others.
            try connection.sql.execute(
                """
                insert into pathmirror.named_write (namespace_id, writer, done, seq, used_on)
                values ($1, 'of-older', '{[1,1]}', 1, current_date - 2)
                """, [.int8(writer.namespace)])
            try connection.sql.execute(
                "update pathmirror.named_write set used_on = current_date - 1 where writer = 'of-ada-x'")
            var bounds = LogConnection.WriterBounds()
            (bounds.ofIdentity, bounds.ofNamespace) = (3, 5)
            #expect(try connection.forgetWriters(unusedForDays: 30, bounds: bounds) == 9)
            func left() throws -> Set<String> {
                let rows = try connection.sql.execute("select writer from pathmirror.named_write")
                return Set(try (0..<rows.rowCount).map { try rows.string($0, 0) })
            }
            #expect(try left() == ["of-older", "of-ada-x", "of-eve-9", "of-eve-10", "of-eve-11"])
            // The namespace's limit applies to the remaining writers.
            bounds.ofNamespace = 4
            #expect(try connection.forgetWriters(unusedForDays: 30, bounds: bounds) == 1)
            #expect(try left() == ["of-ada-x", "of-eve-9", "of-eve-10", "of-eve-11"])
        }
    }

    /// Checks that a writer's name is deleted once retention has dropped all of its entries, but not within a day.
    @Test func namesGoWithTheirEntries() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for number in 1...3 as ClosedRange<Int64> {
                let batch = named(writer.set("a", .int(number)), [try name(number, "writer-\(number)")])
                #expect(try connection.commit(batch) == .committed)
            }
            try connection.sql.execute(
                "update pathmirror.named_write set used_on = current_date - 2 where writer <> 'writer-2'")
            #expect(try connection.forgetWriters(unusedForDays: 30) == 0)
            try connection.sql.execute("update pathmirror.namespace set retained_from = 3")
            #expect(try connection.forgetWriters(unusedForDays: 30) == 1)
            let names = Set(try (1...3).map { try name($0, "writer-\($0)") })
            let done = try connection.doneWrites(writer.namespace, names)
            #expect(
                try (1...3).map { done.fate(of: try name($0, "writer-\($0)")) } == [nil, .done(seq: 2), .done(seq: 3)])
        }
    }

    /// Checks that a writer that writes while it is about to be forgotten is kept.
    @Test func aCurrentWriterStays() throws {
        try withDatabase { url in
            let here = try LogConnection(url)
            defer { here.close() }
            var writer = BatchWriter(try here.make())
            #expect(try here.commit(named(writer.set("a", .int(1)), [name(1)])) == .committed)
            try here.sql.execute("update pathmirror.named_write set used_on = current_date - 40")
            try here.sql.executeScript("begin")
            try here.sql.execute(
                "select pathmirror.note_writes($1, '{writer-1}', '{\"{[2,2]}\"}', 2)", [.int8(writer.namespace)])
            let forgotten = Condition<Int?>(nil)
            let thread = Thread(name: "forgetting") {
                var count: Int?
                if let there = try? LogConnection(url) {
                    // The wait lasts as long as a busy machine needs to check.
                    there.statementTimeoutMilliseconds = 600_000
                    count = try? there.forgetWriters(unusedForDays: 30)
                    there.close()
                }
                forgotten.broadcast { $0 = count ?? -1 }
            }
            #expect(try oneWaitsForALock(url))
            try here.sql.executeScript("commit")
            thread.join()
            #expect(forgotten.withLock { $0 } == 0)
            #expect(try here.doneWrites(writer.namespace, [name(2)]).fate(of: name(2)) == .done(seq: 2))
        }
    }

    /// Checks that the number of known writes is bounded, and never exceeds the number of learned ones.
    @Test func learningIsBounded() throws {
        var all = DoneWrites()
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let names = try (0..<(DoneWrites.capacity + 10)).map { try name(1, "writer-\($0)") }
            #expect(try connection.commit(named(writer.set("a", .int(1)), Set(names))) == .committed)
            all.learn(try connection.doneWrites(writer.namespace, Set(names.prefix(10))))
            #expect(names.map { all.fate(of: $0) != nil }.count { $0 } == 10)
            all.learn(try connection.doneWrites(writer.namespace, Set(names.dropFirst(10))))
            #expect(names.map { all.fate(of: $0) != nil }.count { $0 } == DoneWrites.capacity)
            #expect(all.fate(of: names[0]) == nil)
        }
    }
}
