import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@Suite struct ReadTests {
    @Test func pages() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for value in 0..<25 as Range<Int64> { _ = try connection.commit(writer.set("a", .int(value))) }
            #expect(try connection.read(writer.namespace, after: 3, limit: 5).map(\.entry.seq) == [4, 5, 6, 7, 8])
            #expect(try connection.read(writer.namespace, after: 3, through: 6).map(\.entry.seq) == [4, 5, 6])
            #expect(try connection.read(writer.namespace, after: 25).isEmpty)
            // At least one entry, however large.
            #expect(try connection.read(writer.namespace, after: 3, maxBytes: 1).map(\.entry.seq) == [4])
        }
    }

    @Test func gapIsCorruption() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for value in 0..<9 as Range<Int64> { _ = try connection.commit(writer.set("a", .int(value))) }
            try connection.sql.executeScript("delete from pathmirror.log where seq = 5")
            #expect(throws: LogStoreError.self) { try connection.read(writer.namespace, after: 0) }
            // What is pruned from the beginning is no gap.
            try connection.sql.executeScript("delete from pathmirror.log where seq < 5")
            #expect(try connection.read(writer.namespace, after: 0).map(\.entry.seq) == [6, 7, 8, 9])
            // Also where it is more than a page.
            #expect(try connection.read(writer.namespace, after: 0, limit: 2).map(\.entry.seq) == [6, 7])
            #expect(try connection.read(writer.namespace, after: .max, limit: 2).isEmpty)
        }
    }

    /// Whatever values hold comes back the same: U+0000, large and negative zero numbers, priorities.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func changesComeBackTheSame(seed: UInt64) throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var random = TreeGenerator(seed: seed)
            var written: [[Change]] = []
            for _ in 0..<30 {
                let changes = [Change(path: random.path(maxDepth: 4), value: random.tree(depth: 3))]
                written.append(changes)
                _ = try connection.commit(writer.batch([changes]))
            }
            #expect(try connection.read(writer.namespace, after: 0).map(\.entry.changes) == written)
        }
    }
}
