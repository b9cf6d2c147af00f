import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that a batch of one write to one row, which uses a separate statement, behaves like any other batch.
@Suite struct CommitOneTests {
    /// A batch of one or two writes of one row each.
    private func batch(_ writer: inout BatchWriter, _ value: Int64, writes: Int) -> Batch {
        writer.batch((0..<writes).map { [Change(path: Path(splitting: "v/k\($0)"), value: .int(value))] })
    }

    private func statements(_ connection: LogConnection) throws -> Set<String> {
        let found = try connection.sql.execute("select statement from pg_prepared_statements")
        return Set(
            try (0..<found.rowCount).compactMap { row in
                let text = try found.string(row, 0)
                return text.contains("insert into pathmirror.log") ? (text.contains("unnest") ? "any" : "one") : nil
            })
    }

    /// Runs `body` with the committing connection and a second one.
    private func withOther(_ body: (LogConnection, PostgresConnection) throws -> Void) throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            let other = try PostgresConnection(url)
            defer {
                connection.close()
                other.close()
            }
            try body(connection, other)
        }
    }

    @Test func whichStatementIsTaken() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(batch(&writer, 1, writes: 1)) == .committed)
            #expect(try statements(connection) == ["one"])
            #expect(try connection.commit(batch(&writer, 2, writes: 2)) == .committed)
            #expect(try statements(connection) == ["one", "any"])
        }
        // Batches of several rows, of no rows, and the removal of one row.
        let others: [(inout BatchWriter) -> Batch] = [
            { $0.set("v", Node(children: [(Key("a"), .int(1)), (Key("b"), .int(2))])) },
            { $0.set("v", .null) },
            { $0.set("elsewhere", .null) },
            { $0.set("v/k0", Node.int(3).withPriority(.int(1))) },
        ]
        for other in others {
            try withSession { connection in
                var writer = BatchWriter(try connection.make())
                #expect(try connection.commit(batch(&writer, 1, writes: 2)) == .committed)
                #expect(try connection.commit(other(&writer)) == .committed)
                #expect(try statements(connection) == ["any"])
                #expect(try connection.loadTree(writer.namespace).root == writer.root)
            }
        }
    }

    /// Checks values and paths of all kinds, in new and existing rows, with and without an origin.
    @Test func whatIsStored() throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            let values: [Node] = [
                .int(.min), .double(0.5), .bool(false), .string(""), .string("é\u{1}\"\\"),
                .string(String(repeating: "long ", count: 60_000)),
            ]
            let paths = [Path(splitting: "a"), Path(splitting: "a/b/c"), longPath(1), longPath(2), Path(splitting: "")]
            for path in paths {
                for value in values {
                    let plain = writer.batch([[Change(path: path, value: value)]])
                    let record = plain.records[0]
                    let origin =
                        path.isRoot ? nil : Origin(uid: "somebody \"else\"", isAdmin: false, via: .rest, address: nil)
                    let batch = Batch(
                        namespace: plain.namespace, expectedHead: plain.expectedHead, id: plain.id,
                        records: [
                            Batch.Record(
                                operation: record.operation, path: record.path, changes: record.changes, origin: origin)
                        ], rows: plain.rows)
                    #expect(try connection.commit(batch) == .committed)
                    let entry = try #require(
                        try connection.read(writer.namespace, after: batch.expectedHead).last?.entry)
                    #expect(entry.path == path && entry.changes.map(\.value) == [value] && entry.seq == batch.newHead)
                    #expect(entry.origin == origin)
                    let version = try connection.sql.execute(
                        "select max(version) from pathmirror.node where namespace_id = $1", [.int8(writer.namespace)])
                    #expect(try version.int64(0, 0) == batch.newHead)
                }
            }
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    /// Checks that neither the entry nor the row is written if another connection has moved the head.
    @Test(arguments: [1, 2]) func theHeadHasMoved(writes: Int) throws {
        try withSession { connection in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(batch(&writer, 1, writes: writes)) == .committed)
            var late = writer
            #expect(try connection.commit(batch(&writer, 2, writes: writes)) == .committed)
            let refused = batch(&late, 3, writes: writes)
            #expect(try connection.commit(refused) == .headMoved)
            #expect(!connection.sql.isInTransaction)
            #expect(try !connection.findBatch(refused))
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
            #expect(try connection.commit(batch(&writer, 4, writes: writes)) == .committed)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    /// Checks that the namespace's row is found after another connection has moved it, however often.
    @Test(arguments: [1, 2], [false, true]) func theRowHasMoved(writes: Int, isVacuumed: Bool) throws {
        try withOther { connection, other in
            var writer = BatchWriter(try connection.make())
            for round in 1...5 as ClosedRange<Int64> {
                #expect(try connection.commit(batch(&writer, round, writes: writes)) == .committed)
                for _ in 0..<round {
                    try other.executeScript("update pathmirror.namespace set shared_to = shared_to")
                }
                if isVacuumed { try other.executeScript("vacuum full pathmirror.namespace") }
            }
            #expect(try connection.commit(batch(&writer, 9, writes: writes)) == .committed)
            #expect(try connection.namespace(id: writer.namespace)?.head == writer.head)
            #expect(try connection.loadTree(writer.namespace).root == writer.root)
        }
    }

    /// Checks that a commit waits while another connection holds the head's lock, whether that connection moves the
    /// head or changes another column of the row.
    @Test(arguments: [1, 2], [false, true]) func theLockIsWaitedFor(writes: Int, isMoved: Bool) throws {
        try withOther { connection, other in
            var writer = BatchWriter(try connection.make())
            #expect(try connection.commit(batch(&writer, 1, writes: writes)) == .committed)
            let before = writer
            try other.executeScript(
                """
                begin;
                update pathmirror.namespace set \(isMoved ? "head = head + 1" : "shared_to = shared_to") where id = \(writer.namespace)
                """)
            let waiting = batch(&writer, 2, writes: writes)
            try connection.sendCommit(waiting)
            #expect(
                try eventually {
                    let waits = try other.execute(
                        "select count(*) from pg_locks where not granted and pid = $1",
                        [.int4(connection.sql.backendPID)])
                    return try waits.int64(0, 0) > 0
                })
            try other.executeScript("commit")
            let outcome = try connection.receiveCommit()
            #expect(outcome == (isMoved ? .headMoved : .committed))
            if isMoved {
                try other.executeScript(
                    "update pathmirror.namespace set head = head - 1 where id = \(writer.namespace)")
            }
            #expect(try connection.loadTree(writer.namespace).root == (isMoved ? before : writer).root)
        }
    }
}
