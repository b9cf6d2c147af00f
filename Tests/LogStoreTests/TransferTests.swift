import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of imports and exports of whole trees.
@Suite struct TransferTests {
    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func exportThenImportGivesTheSameTree(seed: UInt64) throws {
        try withSession { connection in
            var random = TreeGenerator(seed: seed)
            let source = try connection.make("source")
            var writer = BatchWriter(source)
            for _ in 0..<10 {
                _ = try connection.commit(
                    writer.batch([[Change(path: random.path(maxDepth: 2), value: random.tree(depth: 4))]]))
            }
            let text = try export(connection, source)
            #expect(try JSONParser.parse(String(decoding: text, as: UTF8.self)) == writer.root)
            for rowsPerChunk in [nil, 1, 7] as [Int?] {
                let target = try connection.make("target \(rowsPerChunk ?? 0)")
                try load(connection, target, text, rowsPerChunk: rowsPerChunk, pieceBytes: 1 + random.random.below(50))
                #expect(try connection.loadTree(target.id).root == writer.root)
                #expect(try Verification.run(connection, target).isClean)
            }
        }
    }

    @Test func importReplacesWhatIsThere() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(
                writer.set("a", try JSONParser.parse("{\"old\":1,\"x\":{\"y\":2},\".priority\":3}")))
            _ = try connection.commit(writer.set("b", .int(4)))
            _ = try connection.commit(writer.set("a b", .int(5)))
            try load(connection, record, Array("{\"new\":true}".utf8), at: "a")
            let expected = try JSONParser.parse("{\"a\":{\"new\":true},\"a b\":5,\"b\":4}")
            #expect(try connection.loadTree(record.id).root == expected)
            // Below a leaf, which becomes a branch.
            try load(connection, record, Array("{\"deep\":1}".utf8), at: "b/c/d")
            #expect(
                try connection.loadTree(record.id).root[Path(splitting: "b")]
                    == JSONParser.parse("{\"c\":{\"d\":{\"deep\":1}}}"))
            // A bare value, also at the root.
            try load(connection, record, Array("5".utf8), at: "a/new")
            try load(connection, record, Array("\"all\"".utf8))
            #expect(try connection.loadTree(record.id).root == .string("all"))
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks that an empty import does not replace existing data.
    @Test(arguments: ["null", "{}", "{\"a\":null}"])
    func importOfNothing(text: String) throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a", .int(1)))
            try load(connection, record, Array(text.utf8))
            #expect(try connection.loadTree(record.id).root == .null)
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks imports below the only child of a node with a priority and below a leaf: nodes that become empty are
    /// removed as usual.
    @Test(arguments: ["null", "7", "{\"x\":1}"])
    func importBelowPriorities(text: String) throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(
                writer.set(
                    "", try JSONParser.parse("{\"a\":{\"b\":1,\".priority\":2},\"l\":{\".value\":3,\".priority\":4}}")))
            var root = writer.root
            for path in ["a/b", "l/m"] {
                try load(connection, record, Array(text.utf8), at: path)
                root = root.replacing(Path(splitting: path), with: try JSONParser.parse(text))
                #expect(try connection.loadTree(record.id).root == root, "\(path)")
                let result = try Verification.run(connection, record)
                #expect(result.isClean, "\(path): \(result.problems) \(result.differences)")
            }
        }
    }

    /// Checks that a missing namespace is created together with its data, and not without.
    @Test(arguments: [nil, 2] as [Int?]) func namespacesAreMadeWithTheirData(rowsPerChunk: Int?) throws {
        try withSession { connection in
            var settings = Importer.Settings()
            settings.bufferBytes = 1
            settings.rowsPerChunk = rowsPerChunk
            let cut = try Importer(connection, named: "new", at: .root, settings: settings)
            try cut.add(Array("/a".utf8), .int(1))
            cut.abandon()
            #expect(try connection.allNamespaces().isEmpty)
            let importer = try Importer(connection, named: "new", at: .root, settings: settings)
            for key in ["a", "b", "c"] { try importer.add(Array("/\(key)".utf8), .string(key)) }
            try importer.finish()
            let record = try #require(try connection.namespace(named: "new"))
            #expect(record.head == (rowsPerChunk == nil ? 1 : 2))
            #expect(try connection.loadTree(record.id).root.childCount == 3)
            #expect(try Verification.run(connection, record).isClean)
            // The later importer finds the existing namespace.
            let late = try Importer(connection, named: "late", at: .root, settings: settings)
            _ = try connection.make("late")
            try late.add(Array("/a".utf8), .int(1))
            try late.finish()
            #expect(try connection.namespace(named: "late")?.head == 1)
        }
    }

    @Test func failedImportLeavesNothing() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(writer.set("a", .int(1)))
            #expect(throws: (any Error).self) {
                try load(connection, record, Array("{\"b\":1,\"c\":{\"d\":2},\"e\":oops}".utf8), bufferBytes: 1)
            }
            #expect(!connection.sql.isInTransaction)
            #expect(try connection.loadTree(record.id).root == writer.root)
            #expect(try connection.namespace(id: record.id)?.head == 1)
            #expect(try count(connection, "select count(*) from pathmirror.log_part") == 0)
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks that an import that was interrupted after some chunks resumes when it is started again.
    @Test func aChunkedImportResumesWhereItStopped() throws {
        try withSession { connection in
            let record = try connection.make()
            var settings = Importer.Settings()
            settings.rowsPerChunk = 10
            let rows = (0..<95).map { (Array("/k\($0)".utf8), Node.int(Int64($0))) }
            let first = try Importer(connection, record, at: .root, settings: settings, fingerprint: "file")
            for (path, value) in rows[..<37] { try first.add(path, value) }
            first.abandon()
            let second = try Importer(connection, record, at: .root, settings: settings, fingerprint: "file")
            #expect(second.resumedRows == 30)
            for (path, value) in rows { try second.add(path, value) }
            try second.finish()
            #expect(try connection.loadTree(record.id).root.childCount == 95)
            #expect(try connection.namespace(id: record.id)?.head == 10)
            #expect(try Verification.run(connection, record).isClean)
            // The next import of the file is a new one.
            #expect(
                try Importer(connection, record, at: .root, settings: settings, fingerprint: "file").resumedRows == 0)
        }
    }

    /// Checks that an import stops if another writer changes its path between two chunks. It blocks no session, and
    /// restarts from the beginning.
    @Test func chunkedImportThatMeetsAnotherWriter() throws {
        try withSession { connection in
            let record = try connection.make()
            var settings = Importer.Settings()
            settings.rowsPerChunk = 10
            let rows = (0..<25).map { (Array("/a/k\($0)".utf8), Node.int(Int64($0))) }
            let path = Path(splitting: "a")
            let first = try Importer(connection, record, at: path, settings: settings, fingerprint: "file")
            for (path, value) in rows[..<10] { try first.add(path, value) }
            var writer = BatchWriter(record)
            writer.head = 1
            writer.root = try connection.loadTree(record.id).root
            _ = try connection.commit(writer.set("a/mine", .bool(true)))

            #expect(throws: LogStoreError.self) { try first.add(rows[10].0, rows[10].1) }
            #expect(!connection.sql.isInTransaction)
            // Otherwise another session would wait for the head's lock, or find the import incomplete.
            #expect(try connection.commit(writer.set("b", .int(1))) == .committed)
            let second = try Importer(connection, record, at: path, settings: settings, fingerprint: "file")
            #expect(second.resumedRows == 0)
            for (path, value) in rows { try second.add(path, value) }
            try second.finish()
            let root = try connection.loadTree(record.id).root
            #expect(root[path].childCount == 25)
            #expect(root[Path(splitting: "b")] == .int(1))
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    /// Checks many chunks across partition boundaries.
    @Test func chunksOverPartitions() throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            let record = try connection.make()
            let text = "{" + (0..<60).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
            try load(connection, record, Array(text.utf8), rowsPerChunk: 1)
            #expect(try connection.namespace(id: record.id)?.head == 60)
            #expect(try Verification.run(connection, record).isClean)
        }
    }

    @Test func longPaths() throws {
        try withSession { connection in
            let source = try connection.make("source")
            var writer = BatchWriter(source)
            for variant in 0..<3 {
                _ = try connection.commit(
                    writer.batch([
                        [Change(path: longPath(variant), value: .int(Int64(variant)).withPriority(.string("p")))]
                    ]))
            }
            _ = try connection.commit(writer.batch([[Change(path: longPath(7, depth: 9), value: .bool(true))]]))
            let text = try export(connection, source)
            let target = try connection.make("target")
            try load(connection, target, text)
            #expect(try connection.loadTree(target.id).root == writer.root)
            #expect(try Verification.run(connection, target).isClean)
            // A subtree of it, below the longest prefix that is still a plain row and below a longer one.
            for depth in [2, 3, 20] {
                let path = longPath(0).prefix(depth)
                let part = try JSONParser.parse(
                    String(decoding: try export(connection, source, at: path), as: UTF8.self))
                #expect(part == writer.root[path])
                try load(connection, target, Array("{\"x\":1}".utf8), at: path.description)
                writer.root = writer.root.replacing(path, with: Node(children: [(Key("x"), .int(1))]))
                #expect(try connection.loadTree(target.id).root == writer.root)
                writer.root = try connection.loadTree(source.id).root
                try load(connection, target, text)
            }
        }
    }

    @Test func exportOfAPart() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            _ = try connection.commit(
                writer.set(
                    "",
                    try JSONParser.parse("{\"a\":{\"b\":1,\"c\":{\".value\":2,\".priority\":3}},\"a b\":4,\"aa\":5}")))
            #expect(
                String(decoding: try export(connection, record, at: Path(splitting: "a/b")), as: UTF8.self) == "1\n")
            #expect(
                String(decoding: try export(connection, record, at: Path(splitting: "none")), as: UTF8.self) == "null\n"
            )
            let part = try JSONParser.parse(
                String(decoding: try export(connection, record, at: Path(splitting: "a")), as: UTF8.self))
            #expect(part == writer.root[Path(splitting: "a")])
        }
    }

    private func export(_ connection: LogConnection, _ record: NamespaceRecord, at path: Path = .root) throws -> [UInt8]
    {
        var text: [UInt8] = []
        try Exporter(connection, record, at: path) { text += $0 }.run()
        return text
    }

    private func load(
        _ connection: LogConnection, _ record: NamespaceRecord, _ text: [UInt8], at location: String = "",
        rowsPerChunk: Int? = nil, pieceBytes: Int = 1_000, bufferBytes: Int = 64
    ) throws {
        var settings = Importer.Settings()
        settings.rowsPerChunk = rowsPerChunk
        settings.bufferBytes = bufferBytes
        let path = Path(splitting: location)
        let importer = try Importer(
            connection, try #require(try connection.namespace(id: record.id)), at: path, settings: settings)
        do {
            var reader = JSONRowReader(at: path)
            var rest = text[...]
            while !rest.isEmpty {
                try reader.take(Array(rest.prefix(pieceBytes)), importer.add)
                rest = rest.dropFirst(pieceBytes)
            }
            try reader.finish(importer.add)
            try importer.finish()
        } catch {
            importer.abandon()
            throw error
        }
    }
}
