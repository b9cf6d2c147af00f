import Glibc
import SQLite
import TestSupport
import Testing

@Suite struct SQLiteConnectionTests {
    @Test func valuesComeBackAsTheyWere() throws {
        let connection = try SQLiteConnection(.memory)
        try connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, value)")
        let put = try connection.prepare("INSERT INTO kept VALUES (?1, ?2)")
        let texts = ["", "x", "a\0b", "😀é", String(repeating: "long ", count: 10_000)]
        for (index, text) in texts.enumerated() {
            try put.bind(1, Int64(index))
            try put.bind(2, text)
            try put.run()
        }
        for (index, bytes) in [[], [0], Array(UInt8.min...UInt8.max)].enumerated() {
            try put.bind(1, Int64(100 + index))
            try put.bind(2, bytes)
            try put.run()
        }
        for (index, number) in [Int64.min, -1, 0, 1, .max].enumerated() {
            try put.bind(1, Int64(200 + index))
            try put.bind(2, number)
            try put.run()
        }
        let get = try connection.prepare("SELECT value, typeof(value) FROM kept ORDER BY id")
        for text in texts {
            #expect(try get.step())
            #expect(get.text(0) == text)
            #expect(get.text(1) == "text")
        }
        for bytes in [[], [0], Array(UInt8.min...UInt8.max)] {
            #expect(try get.step())
            #expect(get.bytes(0) == bytes)
            #expect(get.text(1) == "blob")
        }
        for number in [Int64.min, -1, 0, 1, .max] {
            #expect(try get.step())
            #expect(get.integer(0) == number)
        }
        #expect(try !get.step())
        #expect(try connection.integer("SELECT count(*) FROM kept") == 13)
    }

    @Test func errorsSayWhatCanBeDone() throws {
        let connection = try SQLiteConnection(.memory)
        #expect(throws: SQLiteError.self) { try connection.execute("NO SQL") }
        let folder = TemporaryFolder.path("sqlite")
        defer { TemporaryFolder.remove(folder) }
        #expect(kind { _ = try SQLiteConnection(.file(folder + "/missing/file")) } == .cannotOpen)
        try PrivateFile.makeFolder(folder)
        let descriptor = open(folder + "/text", O_CREAT | O_WRONLY, 0o600)
        _ = write(descriptor, String(repeating: "no database ", count: 100), 1200)
        close(descriptor)
        let text = try SQLiteConnection(.file(folder + "/text"))
        #expect(kind { try text.execute("CREATE TABLE t (x)") } == .damaged)
        try connection.execute("PRAGMA max_page_count = 3; CREATE TABLE t (x)")
        #expect(kind { try connection.execute("INSERT INTO t VALUES (randomblob(100000))") } == .full)
    }

    @Test func aFileThatIsTakenCantBeTakenAgain() throws {
        let folder = TemporaryFolder.path("sqlite")
        defer { TemporaryFolder.remove(folder) }
        try PrivateFile.makeFolder(folder)
        let take = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; COMMIT"
        let first = try SQLiteConnection(.file(folder + "/file"))
        try first.execute(take)
        let second = try SQLiteConnection(.file(folder + "/file"))
        #expect(kind { try second.execute(take) } == .inUse)
        try first.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        try first.syncLog()
        first.close()
        try second.execute(take)
        #expect(try second.integer("SELECT x FROM t") == 1)
    }

    @Test func aClosedConnectionsStatementsAreRefused() throws {
        let connection = try SQLiteConnection(.memory)
        let statement = try connection.prepare("SELECT ?1")
        connection.close()
        connection.close()
        #expect(kind { try statement.bind(1, 1) } == .misuse)
        #expect(kind { _ = try statement.step() } == .misuse)
        statement.reset()
    }

    @Test func filesAreTheirOwners() throws {
        let folder = TemporaryFolder.path("sqlite")
        defer { TemporaryFolder.remove(folder) }
        try PrivateFile.makeFolder(folder + "/a/b")
        try PrivateFile.make(folder + "/a/b/file")
        #expect(mode(folder + "/a/b") == 0o700)
        #expect(mode(folder + "/a/b/file") == 0o600)
        chmod(folder + "/a/b/file", 0o644)
        try PrivateFile.make(folder + "/a/b/file")
        #expect(mode(folder + "/a/b/file") == 0o600)
        #expect(try PrivateFile.rename(folder + "/a/b/file", to: folder + "/a/file"))
        #expect(try !PrivateFile.rename(folder + "/a/b/file", to: folder + "/a/file"))
    }

    private func kind(_ body: () throws -> Void) -> SQLiteError.Kind? {
        do {
            try body()
            return nil
        } catch { return (error as? SQLiteError)?.kind }
    }

    private func mode(_ path: String) -> UInt32 {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
    }
}
