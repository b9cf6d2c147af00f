import LogStore
import Postgres
import TestSupport
import Testing

/// Checks that conversion errors of mirrors are kept up to a limit, and deleted with their table or record.
@Suite struct MirrorErrorsTests {
    private let table = MirrorGeneration(namespace: 7, mirror: Batch.makeID(), generation: 2)

    private func withTarget(_ body: (PostgresConnection) throws -> Void) throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try MirrorTargetSchema.make(connection)
            try body(connection)
        }
    }

    private func error(_ record: String, _ column: String = "c", _ reason: String = "no number") -> MirrorErrorRecord {
        MirrorErrorRecord(
            record: record, column: column, path: record + "/" + column, seq: 3, value: "\"x\"", reason: reason)
    }

    private func store(_ connection: PostgresConnection, _ errors: [MirrorErrorRecord], keeping limit: Int = 100) throws
    {
        try connection.pipeline([MirrorErrors.storeStep(errors, of: table, keeping: limit)])
    }

    private func counts(_ connection: PostgresConnection) throws -> [Int64] {
        [try MirrorErrors.kept(connection, table), try MirrorErrors.unkept(connection, table)]
    }

    /// Checks that records that wait for other tables have a separate limit, and that neither kind uses up the other's.
    @Test func recordsThatWaitAreLimitedApart() throws {
        try withTarget { connection in
            let waiting = (0..<4).map { number in
                MirrorErrorRecord(
                    record: "/w\(number)", column: "", path: "/w\(number)", seq: 1, value: nil,
                    reason: MirrorErrors.forNow + "the table refuses the row")
            }
            try store(connection, waiting, keeping: 3)
            #expect(try counts(connection) == [3, 1])
            try store(connection, [error("/a"), error("/b"), error("/c")], keeping: 2)
            #expect(try counts(connection) == [5, 2])
            try store(connection, Array(waiting.prefix(1)), keeping: 3)
            #expect(try counts(connection) == [5, 2], "it is known already")
        }
    }

    @Test func errorsAreKept() throws {
        try withTarget { connection in
            #expect(try counts(connection) == [0, 0])
            try store(connection, [error("/a"), error("/b", ""), error("/a", "d")])
            #expect(try counts(connection) == [3, 0])
            #expect(Set(try MirrorErrors.records(connection, table)) == ["/a", "/b"])
            let among = { (isRefused: Bool) in
                try MirrorErrors.records(connection, table, among: ["/a", "/b", "/c"], refusedOnly: isRefused)
            }
            #expect(try among(true) == [Array("/b".utf8)])
            #expect(try among(false) == [Array("/a".utf8), Array("/b".utf8)])
            // Repeated errors replace the stored ones, with new details.
            try store(connection, [error("/a", "c", "still none")])
            #expect(try counts(connection) == [3, 0])
        }
    }

    @Test(arguments: [0, 1, 3, 10])
    func moreThanTheLimitAreCountedOnly(limit: Int) throws {
        try withTarget { connection in
            try store(connection, (0..<4).map { error("/r\($0)") }, keeping: limit)
            #expect(try counts(connection) == [Int64(min(4, limit)), Int64(max(0, 4 - limit))])
            // Known errors do not count again. New errors do.
            let kept = try MirrorErrors.records(connection, table)
            try store(connection, kept.map { error($0) } + [error("/new")], keeping: limit)
            let expected = limit > 4 ? [Int64(5), 0] : [Int64(min(4, limit)), Int64(4 - min(4, limit) + 1)]
            #expect(try counts(connection) == expected)
        }
    }

    @Test func theListIsOfTheLiveTable() throws {
        try withTarget { connection in
            try store(connection, [error("/b"), error("/a", "d"), error("/a")])
            #expect(try MirrorErrors.list(connection, 7, table.mirror, limit: 10).isEmpty, "no cursor, no table")
            try MirrorCursors.put(
                connection, 7,
                MirrorCursorRecord(
                    mirror: table.mirror, position: LogPosition(seq: 1), generation: 2, definition: Array("{}".utf8)))
            let list = try MirrorErrors.list(connection, 7, table.mirror, limit: 10)
            #expect(list.map { "\($0.error.record) \($0.error.column)" } == ["/a c", "/a d", "/b c"])
            #expect(list[0].error.value == "\"x\"")
            #expect(list[0].error.seq == 3)
            #expect(list.allSatisfy { $0.foundAt > 1_600_000_000_000 })
            #expect(try MirrorErrors.list(connection, 7, table.mirror, limit: 2).count == 2)
            #expect(try MirrorCursors.read(connection, 7, [table.mirror]).map(\.hasErrors) == [true])
        }
    }

    @Test func rewrittenRecordsHaveNone() throws {
        try withTarget { connection in
            try store(connection, ["/a", "/a/b", "/a/b/c", "/ab", "/x"].map { error($0) })
            try connection.pipeline([MirrorErrors.removeStep(["/x", "/none"], of: table)])
            #expect(Set(try MirrorErrors.records(connection, table)) == ["/a", "/a/b", "/a/b/c", "/ab"])
            try connection.pipeline([MirrorErrors.removeStep(below: "/a/b", of: table)])
            #expect(Set(try MirrorErrors.records(connection, table)) == ["/a", "/ab"])
            try connection.pipeline([MirrorErrors.removeStep(below: "/", of: table)])
            #expect(try MirrorErrors.records(connection, table).isEmpty)
        }
    }

    @Test(arguments: [
        (MirrorErrors.Generations.all, [] as [Int64]), (.from, [1]), (.allBut, [2]),
    ])
    func generationsAreForgotten(which: MirrorErrors.Generations, left: [Int64]) throws {
        try withTarget { connection in
            for generation in 1...3 as ClosedRange<Int64> {
                let table = MirrorGeneration(namespace: 7, mirror: table.mirror, generation: generation)
                try connection.pipeline([
                    MirrorErrors.storeStep([error("/a"), error("/b")], of: table, keeping: 1)
                ])
            }
            let other = MirrorGeneration(namespace: 8, mirror: table.mirror, generation: 2)
            try connection.pipeline([MirrorErrors.storeStep([error("/a")], of: other, keeping: 1)])
            try connection.pipeline(MirrorErrors.forgetSteps(table, which))
            for generation in 1...3 as ClosedRange<Int64> {
                let table = MirrorGeneration(namespace: 7, mirror: table.mirror, generation: generation)
                let isLeft = left.contains(generation)
                #expect(try MirrorErrors.kept(connection, table) == (isLeft ? 1 : 0))
                #expect(try MirrorErrors.unkept(connection, table) == (isLeft ? 1 : 0))
            }
            #expect(try MirrorErrors.kept(connection, other) == 1, "another namespace's")
        }
    }
}
