import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// Tests of mirrors' cursors, in Pathmirror's own database and in another one that holds the tables.
@Suite struct MirrorCursorsTests {
    private let first = Batch.makeID()
    private let second = Batch.makeID()
    private let definition = Array("{\"t\":1}".utf8)

    /// Runs `body` with a connection to a database for mirrors' tables.
    private func withTarget(isPrimary: Bool, _ body: (PostgresConnection, PostgresURL) throws -> Void) throws {
        let use = { (url: PostgresURL) in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            // Has no effect in Pathmirror's own database.
            for _ in 0..<2 { try MirrorTargetSchema.make(connection) }
            try body(connection, url)
        }
        if isPrimary { try TestDatabase.with(use) } else { try TestDatabase.withEmpty(use) }
    }

    private func put(
        _ connection: PostgresConnection, _ mirror: [UInt8], seq: Int64 = 1, generation: Int64 = 1,
        batch: [UInt8]? = nil
    ) throws {
        try MirrorCursors.put(
            connection, 7,
            MirrorCursorRecord(
                mirror: mirror, position: LogPosition(seq: seq, batch: batch), generation: generation,
                definition: definition))
    }

    @Test(arguments: [true, false])
    func cursorsAreReadAsTheyWerePut(isPrimary: Bool) throws {
        try withTarget(isPrimary: isPrimary) { connection, _ in
            #expect(try MirrorCursors.read(connection, 7, [first, second]).isEmpty)
            try put(connection, first, seq: 5, generation: 2, batch: second)
            let cursor = try #require(try MirrorCursors.read(connection, 7, [first, second]).first)
            #expect(cursor.mirror == first)
            #expect(cursor.seq == 5)
            #expect(cursor.generation == 2)
            #expect(cursor.position.batch == second)
            #expect(cursor.definition == definition)
            #expect(!cursor.hasErrors)
            #expect(try MirrorCursors.read(connection, 8, [first]).isEmpty, "another namespace's")
            // Another table replaces the first, and its batch is unknown.
            try put(connection, first, seq: 9, generation: 3)
            let next = try #require(try MirrorCursors.read(connection, 7, [first]).first)
            #expect(next.seq == 9 && next.generation == 3 && next.position.batch == nil)
        }
    }

    /// Checks that a session that waited for a cursor sees errors that were stored meanwhile. Otherwise these errors
    /// would remain after their records are corrected.
    @Test func errorsThatCameMeanwhileAreKnown() throws {
        try withTarget(isPrimary: true) { connection, url in
            try put(connection, first, seq: 5)
            let error = MirrorErrorRecord(record: "/a", column: "c", path: "/a/c", seq: 6, value: "1", reason: "none")
            let table = MirrorGeneration(namespace: 7, mirror: first, generation: 1)
            try connection.pipeline([
                .query("begin"), MirrorCursors.lockStep(7, [first]),
                MirrorErrors.storeStep([error], of: table, keeping: 10),
                MirrorCursors.moveStep(7, [first], to: LogPosition(seq: 6), nil),
            ])
            let found = Condition<MirrorCursorRecord?>(nil)
            let mirror = first
            let thread = Thread(name: "waiting") {
                guard let other = try? PostgresConnection(url) else { return }
                defer { other.close() }
                try? other.executeScript("begin")
                let cursor = try? MirrorCursors.read(other, 7, [mirror], locking: true).first
                found.broadcast { $0 = cursor }
            }
            #expect(try oneWaitsForALock(url))
            try connection.executeScript("commit")
            thread.join()
            let cursor = try #require(found.withLock { $0 })
            #expect(cursor.seq == 6)
            #expect(cursor.hasErrors)
        }
    }

    @Test(arguments: [true, false])
    func cursorsMoveInTheTransactionThatLocksThem(isPrimary: Bool) throws {
        try withTarget(isPrimary: isPrimary) { connection, url in
            try put(connection, first, seq: 5)
            try put(connection, second, seq: 6, batch: first)
            let other = try PostgresConnection(url)
            defer { other.close() }
            let results = try connection.pipeline([.query("begin"), MirrorCursors.lockStep(7, [first, second])])
            let locked = try MirrorCursors.locked(results[1])
            #expect(Set(locked.map(\.mirror)) == [first, second])
            #expect(locked.first { $0.mirror == second }?.seq == 6)
            // A second session gets no cursors, and can query which are locked.
            let none = try other.pipeline([.query("begin"), MirrorCursors.lockStep(7, [first, second])])
            #expect(try MirrorCursors.locked(none[1]).isEmpty)
            #expect(Set(try MirrorCursors.held(other, 7, [first, second])) == [first, second])
            try other.executeScript("rollback")
            let time: Int64 = 1_700_000_000_000
            try connection.pipeline([
                MirrorCursors.moveStep(7, [first], to: LogPosition(seq: 8, batch: second), time),
                MirrorCursors.moveStep(7, [second], to: LogPosition(seq: 9), nil), .query("commit"),
            ])
            let cursors = try MirrorCursors.read(other, 7, [first, second])
            #expect(cursors.first { $0.mirror == first }?.seq == 8)
            #expect(cursors.first { $0.mirror == first }?.position.batch == second)
            #expect(cursors.first { $0.mirror == second }?.seq == 9)
            #expect(cursors.first { $0.mirror == second }?.position.batch == first, "nil leaves what is there")
            #expect(try MirrorCursors.held(other, 7, [first, second]).isEmpty)
        }
    }

    @Test func whatIsUndoneHasNotMoved() throws {
        try withTarget(isPrimary: false) { connection, _ in
            try put(connection, first, seq: 5)
            try connection.pipeline([
                .query("begin"), MirrorCursors.lockStep(7, [first]),
                MirrorCursors.moveStep(7, [first], to: LogPosition(seq: 8), nil), .query("rollback"),
            ])
            #expect(try MirrorCursors.read(connection, 7, [first]).map(\.seq) == [5])
        }
    }

    @Test func someAreHeldAndSomeAreGone() throws {
        try withTarget(isPrimary: false) { connection, url in
            try put(connection, first)
            let other = try PostgresConnection(url)
            defer { other.close() }
            try other.executeScript("begin")
            #expect(try MirrorCursors.lockedGeneration(other, 7, first) == 1)
            #expect(try MirrorCursors.lockedGeneration(other, 7, second) == nil)
            #expect(try MirrorCursors.held(connection, 7, [first, second]) == [first])
        }
    }

    @Test func definitionsAndRemovals() throws {
        try withTarget(isPrimary: false) { connection, _ in
            try put(connection, first, seq: 5, generation: 4)
            try put(connection, second)
            try connection.pipeline([
                MirrorCursors.redefineStep(7, first, definition: Array("{\"u\":2}".utf8), generation: 5)
            ])
            let cursor = try #require(try MirrorCursors.read(connection, 7, [first]).first)
            #expect(cursor.definition == Array("{\"u\":2}".utf8))
            #expect(cursor.generation == 5 && cursor.seq == 5)
            try connection.pipeline([MirrorCursors.removeStep(7, first)])
            #expect(try MirrorCursors.read(connection, 7, [first, second]).map(\.mirror) == [second])
        }
    }
}
