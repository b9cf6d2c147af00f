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
            // A page contains at least one entry, however large.
            #expect(try connection.read(writer.namespace, after: 3, maxBytes: 1).map(\.entry.seq) == [4])
        }
    }

    @Test func gapIsCorruption() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            for value in 0..<9 as Range<Int64> { _ = try connection.commit(writer.set("a", .int(value))) }
            try connection.sql.executeScript("delete from pathmirror.log where seq = 5")
            #expect(throws: LogStoreError.self) { try connection.read(writer.namespace, after: 0) }
            // Entries pruned from the beginning do not count as a gap.
            try connection.sql.executeScript("delete from pathmirror.log where seq < 5")
            #expect(try connection.read(writer.namespace, after: 0).map(\.entry.seq) == [6, 7, 8, 9])
            // Also if more than a page was pruned.
            #expect(try connection.read(writer.namespace, after: 0, limit: 2).map(\.entry.seq) == [6, 7])
            #expect(try connection.read(writer.namespace, after: .max, limit: 2).isEmpty)
        }
    }

    /// Checks that a reader does not take a removal between two reads of an entry's parts for the end of the entry.
    @Test(arguments: [
        ("delete from pathmirror.log_part where part >= 3", true),
        ("delete from pathmirror.log; delete from pathmirror.log_part", false),
    ])
    func anEntryThatIsRemovedWhileItsPartsAreRead(_ removal: String, isDamage: Bool) throws {
        try withSession { connection in
            let record = try connection.make()
            var settings = Importer.Settings()
            settings.bufferBytes = 1
            let importer = try Importer(connection, record, at: Path(splitting: "a"), settings: settings)
            for number in 0..<8 { try importer.add(Array("/a/k\(number)".utf8), .bool(true)) }
            try importer.finish()
            var count: Int32 = 0
            try connection.forEachPart(record.id, of: 1) { _ in count += 1 }
            #expect(count > 4)
            #expect(try connection.part(count, of: 1, record.id) == nil)
            #expect { try connection.part(count + 1, of: 1, record.id) } throws: { Self.isMissing($0, count + 1) }
            #expect { try connection.part(0, of: 2, record.id) } throws: { Self.isMissing($0, 0) }
            try connection.sql.executeScript(removal)
            #expect { try connection.forEachPart(record.id, of: 1) { _ in } } throws: { error in
                if case LogStoreError.partMissing(seq: 1, _, isDamage ? count : nil) = error { true } else { false }
            }
        }
    }

    private static func isMissing(_ error: any Error, _ number: Int32) -> Bool {
        if case LogStoreError.partMissing(_, number, _) = error { true } else { false }
    }

    /// Checks that values are read back unchanged: U+0000, large numbers, negative zero, priorities.
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
