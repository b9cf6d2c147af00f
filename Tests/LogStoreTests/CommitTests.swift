import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@Suite struct CommitTests {
    @Test func batchWritesLogRowsAndHead() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let first = writer.batch([
                [Change(path: Path(splitting: "a"), value: .int(1))],
                [
                    Change(path: Path(splitting: "b/c"), value: .string("x").withPriority(.int(5))),
                    Change(path: Path(splitting: "a"), value: .int(2)),
                ],
            ])
            #expect(try connection.commit(first) == .committed)
            #expect(try connection.namespace(id: writer.namespace)?.head == 2)
            let entries = try connection.read(writer.namespace, after: 0)
            #expect(entries.map(\.entry.seq) == [1, 2])
            #expect(entries.allSatisfy { $0.batchID == first.id })
            #expect(entries[1].entry.changes.count == 2)
            // A row stores the seq of its last write.
            let versions = try connection.sql.execute("select path, version from pathmirror.node order by path")
            let found = try (0..<versions.rowCount).map { "\(try versions.string($0, 0)) \(try versions.int64($0, 1))" }
            #expect(found == ["/a 2", "/b/c 2", "/b/c/.priority 2"])
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    @Test func movedHeadWritesNothing() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            var late = writer
            #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
            let batch = late.set("b", .int(1))
            #expect(try connection.commit(batch) == .headMoved)
            #expect(!connection.sql.isInTransaction)
            #expect(try connection.findBatch(batch) == false)
            #expect(try connection.namespace(id: writer.namespace)?.head == 1)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
            #expect(try connection.commit(writer.set("b", .int(2))) == .committed)
        }
    }

    @Test func largeBatchesToo() throws {
        try withSession {
            $0.copyThreshold = 5
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            var late = writer
            let wide = Node(children: (0..<50).map { (Key("k\($0)"), Node.int(Int64($0))) })
            #expect(try connection.commit(writer.set("w", wide)) == .committed)
            #expect(try connection.commit(late.set("w", wide)) == .headMoved)
            #expect(!connection.sql.isInTransaction)
            // The batch updates, removes and adds rows.
            let other = Node(children: (20..<80).map { (Key("k\($0)"), Node.int(Int64($0 * 2))) })
            #expect(try connection.commit(writer.set("w", other)) == .committed)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
            #expect(try connection.commit(writer.set("w", .null)) == .committed)
            #expect(try count(connection, "select count(*) from pathmirror.node") == 0)
        }
    }

    /// Checks that random trees that replace random trees are stored as written, by row statements and by COPY.
    @Test(arguments: [1, 2, 3, 4] as [UInt64], [3, 100_000])
    func randomWrites(seed: UInt64, copyThreshold: Int) throws {
        try withSession {
            $0.copyThreshold = copyThreshold
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            var random = TreeGenerator(seed: seed)
            for _ in 0..<40 {
                let writes = (0...random.random.below(3)).map { _ in
                    [
                        Change(
                            path: random.writablePath(maxDepth: 3),
                            value: random.random.oneIn(4) ? .null : random.leafOrTree())
                    ]
                }
                #expect(try connection.commit(writer.batch(writes)) == .committed)
                if random.random.oneIn(8) { #expect(try connection.loadTree(writer.namespace).root == writer.root) }
            }
            let loaded = try connection.loadTree(writer.namespace)
            #expect(loaded.root == writer.root)
            #expect(loaded.head == writer.head)
            #expect(try count(connection, "select count(*) from pathmirror.node") == Int64(writer.root.rowCount))
        }
    }

    @Test func partitionsAreMadeOnTheWay() throws {
        try withSession(sharingUpTo: 8) {
            $0.entriesPerPartition = 8
        } _: { connection in
            var writer = BatchWriter(try connection.make())
            for value in 0..<30 as Range<Int64> {
                #expect(try connection.commit(writer.set("a", .int(value))) == .committed)
            }
            // A batch across a partition boundary.
            let many = (0..<20).map { [Change(path: Path(splitting: "k\($0)"), value: .int(1))] }
            #expect(try connection.commit(writer.batch(many)) == .committed)
            #expect(try connection.read(writer.namespace, after: 0).map(\.entry.seq) == Array(1...50))
            let firsts = [8, 16, 24, 32, 40, 48]
            #expect(try ownPartitions(connection) == firsts.map { "log_\(writer.namespace)_\($0)" })
        }
    }

    /// Checks that two sessions work without knowing each other's partitions.
    @Test func partitionsOfTwoSessions() throws {
        try withDatabase { url in
            try shareLog(upTo: 4, url)
            var settings = LogConnection.Settings()
            settings.entriesPerPartition = 4
            let sessions = [try LogConnection(url, settings: settings), try LogConnection(url, settings: settings)]
            defer { for connection in sessions { connection.close() } }
            var writer = BatchWriter(try sessions[0].make())
            for value in 0..<40 {
                #expect(try sessions[value % 2].commit(writer.set("a", .int(Int64(value)))) == .committed)
            }
            #expect(try sessions[0].read(writer.namespace, after: 0).count == 40)
        }
    }

    /// Checks that a commit waits while another session holds the head's lock, and finds the head moved after that
    /// session commits.
    @Test func lockedHead() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
            #expect(try connection.lockHead(writer.namespace, expectedHead: 1) == 1)
            #expect(try connection.commit(writer.set("a", .int(2)), isLocked: true) == .committed)
            #expect(!connection.sql.isInTransaction)
            #expect(try connection.lockHead(writer.namespace, expectedHead: 2) == 2)
            connection.unlockHead()
            #expect(try connection.commit(writer.set("a", .int(3))) == .committed)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    /// Checks that the holder of the head's lock has a partition to write to, even if the log has grown by several
    /// partitions since the holder last read the head.
    @Test func lockedHeadFarAhead() throws {
        try withDatabase { url in
            try shareLog(upTo: 8, url)
            var settings = LogConnection.Settings()
            settings.entriesPerPartition = 8
            let connection = try LogConnection(url, settings: settings)
            let other = try LogConnection(url, settings: settings)
            defer {
                connection.close()
                other.close()
            }
            var writer = BatchWriter(try connection.make())
            for value in 0..<31 as Range<Int64> { _ = try other.commit(writer.set("a", .int(value))) }
            for _ in 0..<12 {
                // The session expects the head at 0.
                #expect(try connection.lockHead(writer.namespace, expectedHead: 0) == writer.head)
                #expect(try connection.commit(writer.set("a", .int(1)), isLocked: true) == .committed)
            }
        }
    }

    @Test func findBatch() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let batch = writer.set("a", .int(1))
            #expect(try connection.findBatch(batch) == false)
            #expect(try connection.commit(batch) == .committed)
            #expect(try connection.findBatch(batch) == true)
            var twin = BatchWriter(try connection.make())
            #expect(try connection.findBatch(twin.set("a", .int(1))) == false, "another id at the same seq")
        }
    }

    /// Checks that a removed namespace and a failing database cause different errors, and that the connection stays usable.
    @Test func findBatchOfANamespaceThatIsGone() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let batch = writer.set("a", .int(1))
            #expect(try connection.removeNamespace(writer.namespace))
            let isGone = { (error: any Error) in
                if case LogStoreError.unknownNamespace = error { true } else { false }
            }
            for _ in 0..<2 {
                #expect { _ = try connection.findBatch(batch) } throws: { isGone($0) }
                #expect { try connection.confirmHead(writer.namespace) } throws: { isGone($0) }
                #expect { try connection.ensurePartition(writer.namespace, upTo: 100_000) } throws: { isGone($0) }
            }
            var other = BatchWriter(try connection.make())
            #expect(try connection.commit(other.set("a", .int(1))) == .committed)
        }
    }

    @Test func pathsAsLongAsTheyMayBe() throws {
        for threshold in [1, 100_000] {
            try withSession {
                $0.copyThreshold = threshold
            } _: { connection in
                var writer = BatchWriter(try connection.make())
                for variant in 0..<4 {
                    #expect(
                        try connection.commit(
                            writer.batch([[Change(path: longPath(variant), value: .int(Int64(variant)))]]))
                            == .committed)
                }
                #expect(
                    try connection.commit(
                        writer.batch([[Change(path: longPath(1).appending(.priority), value: .int(7))]]))
                        == .committed)
                #expect(try connection.loadTree(writer.namespace).root == writer.root)
                #expect(writer.root[longPath(1)] == .int(1).withPriority(.int(7)))
                // A change of one leaf, a leaf in the middle that becomes a branch, and the removal of all.
                #expect(
                    try connection.commit(writer.batch([[Change(path: longPath(2), value: .bool(true))]])) == .committed
                )
                #expect(
                    try connection.commit(
                        writer.batch([[Change(path: longPath(9, depth: 20), value: .string("leaf"))]]))
                        == .committed)
                #expect(try connection.loadTree(writer.namespace).root == writer.root)
                #expect(
                    try connection.commit(writer.batch([[Change(path: longPath(0).prefix(1), value: .null)]]))
                        == .committed)
                #expect(try count(connection, "select count(*) from pathmirror.node") == 0)
            }
        }
    }
}

extension TreeGenerator {
    mutating func leafOrTree() -> Node { random.oneIn(2) ? leaf() : tree(depth: 3) }
}
