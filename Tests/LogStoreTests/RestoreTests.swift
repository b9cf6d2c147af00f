import Postgres
import TestSupport
import Testing
import Tree

@testable import LogStore

/// Restoring an earlier tree: what was planned is what happens, or nothing does.
@Suite struct RestoreTests {
    /// The plan that reads the database is the plan over the whole tree.
    @Test(arguments: 0..<6 as Range<UInt64>)
    func plansAreOfWhatIsStored(seed: UInt64) throws {
        try withSession { connection in
            let record = try connection.make()
            var random = TreeGenerator(seed: seed)
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("", random.tree(depth: 4)))
            _ = try connection.commit(
                writer.batch([[Change(path: longPath(1), value: try JSONParser.parse(#"{"x":1,"y":{"z":2}}"#))]]))
            let paths = (0..<12).map { _ in random.path(maxDepth: 3) } + [longPath(1), longPath(1).prefix(30), .root]
            for path in paths {
                let part = random.tree(depth: 3)
                guard !part.isNull else { continue }
                for mode in [RestorePlan.Mode.replace, .missingOnly] {
                    let plan = try RestorePlan(connection, part, into: record, at: path, mode)
                    let expected = RestorePlan(part, at: path, over: writer.root, head: 2, mode)
                    #expect(plan.head == 2 && plan.writes == expected.writes, "\(path)")
                    #expect(plan.summary == expected.summary, "\(path)")
                }
            }
        }
    }

    private func load(_ connection: LogConnection, _ record: NamespaceRecord, _ path: String, after head: Int64) throws
    {
        let importer = try Importer(connection, record, at: Path(splitting: path))
        importer.plannedHead = head
        do {
            try importer.add(Array("/\(path)/new".utf8), .int(9))
            try importer.finish()
        } catch {
            importer.abandon()
            throw error
        }
    }

    /// Between chunks, only writes at the rows' paths end an import that restores missing nodes.
    @Test func theMessageOfARestoreInChunks() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("z", .int(0)))
            var settings = Importer.Settings()
            settings.rowsPerChunk = 1
            settings.replaces = false
            let importer = try Importer(connection, record, at: .root, settings: settings)
            importer.plannedHead = 1
            importer.watched = PathSet(["a", "b", "c"].map { Path(splitting: $0) })
            try importer.add(Array("/a".utf8), .int(1))
            writer.head = importer.lastSeq
            #expect(try connection.commit(writer.set("z", .int(2))) == .committed)
            try importer.add(Array("/b".utf8), .int(1))
            writer.head = importer.lastSeq
            #expect(try connection.commit(writer.set("c", .int(2))) == .committed)
            let said = #expect(throws: LogStoreError.self) { try importer.add(Array("/c".utf8), .int(1)) }
            #expect(
                said.map { "\($0)" }
                    == "Entry 5 changed data at, above or below / while missing nodes were restored there. The restored nodes stay. Run the same command again to restore the rest."
            )
            #expect(importer.rowsKept == 2)
        }
    }

    @Test func whatWasWrittenAfterThePlanStays() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            for (path, value) in [("a/old", 1), ("b", 2), ("a/late", 3)] {
                _ = try connection.commit(writer.set(path, .int(Int64(value))))
            }
            // Entry 3 was not in the plan of entry 2.
            let said = #expect(throws: LogStoreError.self) { try load(connection, record, "a", after: 2) }
            #expect(
                "\(said.map { "\($0)" } ?? "")".hasPrefix(
                    "Entry 3 changed data at, above or below /a after the plan was made. Nothing was changed."))
            #expect(!connection.postgres.isInTransaction)
            #expect(try connection.loadTree(record.id).root == writer.root)
            // Changes at other paths do not prevent the restore.
            try load(connection, record, "c", after: 2)
            try load(connection, record, "a", after: 4)
            #expect(try connection.loadTree(record.id).root[Path(splitting: "a")] == JSONParser.parse(#"{"new":9}"#))
        }
    }
}
