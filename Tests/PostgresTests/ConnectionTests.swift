import Glibc
import Postgres
import Synchronization
import Testing

/// Checks that connecting, failing, waiting and abandoning behave as documented.
@Suite struct ConnectionTests {
    @Test func knowsItsServer() throws {
        let connection = try TestDatabase.connect()
        #expect(connection.serverVersion >= 150_000)
        let pid = try connection.execute("SELECT pg_backend_pid()").int32(0, 0)
        #expect(connection.backendPID == pid)
        #expect(!connection.isInTransaction)
    }

    @Test func sessionSettingsAreMade() throws {
        var settings = PostgresConnectionSettings()
        settings.sessionSettings = ["statement_timeout": "4321ms", "search_path": "pg_catalog"]
        let result = try TestDatabase.connect(settings).execute("SHOW statement_timeout")
        #expect(try result.string(0, 0) == "4321ms")
        settings.sessionSettings = ["no_such_setting": "1"]
        #expect(throws: PostgresError.self) { try TestDatabase.connect(settings) }
    }

    @Test func serverErrorsCarryTheirState() throws {
        let connection = try TestDatabase.connect()
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT * FROM no_such_table") }
        #expect(error?.kind == .server(sqlState: "42P01"))
        #expect(error?.isConnectionLost == false)
        #expect(error?.statement == "SELECT * FROM no_such_table")
        #expect(try connection.execute("SELECT 1").int64(0, 0) == 1)
    }

    @Test func errorsDoNotQuoteData() throws {
        let connection = try TestDatabase.connect()
        try connection.execute("CREATE TEMP TABLE t (k text PRIMARY KEY)")
        try connection.execute("INSERT INTO t VALUES ($1)", [.text("hunter2")])
        let duplicate = #expect(throws: PostgresError.self) {
            try connection.execute("INSERT INTO t VALUES ($1)", [.text("hunter2")])
        }
        #expect(duplicate?.kind == .server(sqlState: "23505"))
        #expect(duplicate?.constraint == "t_pkey")
        let syntax = #expect(throws: PostgresError.self) {
            try connection.execute("SELECT $1::int8", [.text("hunter2")])
        }
        #expect(syntax?.sqlState == "22P02")
        let literal = #expect(throws: PostgresError.self) { try connection.execute("SELECT 'hunter2'::int8") }
        for error in [duplicate, syntax, literal] {
            #expect(error.map { !"\($0) \(String(reflecting: $0))".contains("hunter2") } ?? false)
        }
    }

    @Test func aScriptIsOneTransaction() throws {
        let connection = try TestDatabase.connect()
        try connection.executeScript("CREATE TEMP TABLE s (a int); INSERT INTO s VALUES (1); INSERT INTO s VALUES (2)")
        #expect(throws: PostgresError.self) { try connection.executeScript("INSERT INTO s VALUES (3); SELECT 1/0") }
        #expect(try connection.execute("SELECT count(*) FROM s").int64(0, 0) == 2)
        try connection.executeScript("")
        let affected = try connection.execute("UPDATE s SET a = a + 1")
        #expect(affected.affectedRows == 2)
    }

    @Test func commitOfAFailedTransactionIsAnError() throws {
        let connection = try TestDatabase.connect()
        try connection.execute("BEGIN")
        #expect(throws: PostgresError.self) { try connection.execute("SELECT 1/0") }
        #expect(connection.isInTransaction)
        let error = #expect(throws: PostgresError.self) { try connection.execute("COMMIT") }
        #expect(error?.sqlState == "25P02")
        #expect(!connection.isInTransaction)
    }

    @Test func noticesAreCountedNotPrinted() throws {
        let connection = try TestDatabase.connect()
        try connection.executeScript("DO $$ BEGIN RAISE NOTICE 'n'; RAISE WARNING 'w'; END $$")
        #expect(connection.noticeCount == 2)
    }

    @Test func preparedStatementsPrepareThemselves() throws {
        let statement = PostgresStatement("add", "SELECT $1 + $2", types: [.int8, .int8])
        for _ in 0..<2 {
            let connection = try TestDatabase.connect()
            for _ in 0..<3 {
                #expect(try connection.executePrepared(statement, [.int8(2), .int8(3)]).int64(0, 0) == 5)
            }
            let count = try connection.execute("SELECT count(*) FROM pg_prepared_statements")
            #expect(try count.int64(0, 0) == 1)
            let error = #expect(throws: PostgresError.self) {
                try connection.executePrepared(statement, [.int4(2), .int8(3)])
            }
            #expect(error?.kind == .invalidParameter)
            #expect(throws: PostgresError.self) { try connection.executePrepared(PostgresStatement("add", "SELECT 1")) }
        }
    }

    @Test func stalePreparedStatementsRecover() throws {
        let connection = try TestDatabase.connect()
        try connection.execute("CREATE TEMP TABLE p (a int)")
        let statement = PostgresStatement("all", "SELECT * FROM p")
        try connection.prepare(statement)
        try connection.execute("ALTER TABLE p ADD b int")
        let changed = #expect(throws: PostgresError.self) { try connection.executePrepared(statement) }
        #expect(changed?.isRetriable == true)
        #expect(try connection.executePrepared(statement).columnCount == 2)
        try connection.execute("DEALLOCATE ALL")
        let dropped = #expect(throws: PostgresError.self) { try connection.pipeline([.prepared(statement)]) }
        #expect(dropped?.sqlState == "26000")
        #expect(dropped?.isRetriable == true)
        #expect(try connection.pipeline([.prepared(statement)])[0].columnCount == 2)
    }

    @Test func aDeadlineClosesTheConnection() throws {
        let connection = try TestDatabase.connect()
        connection.statementTimeoutMilliseconds = 50
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT pg_sleep(30)") }
        #expect(error?.kind == .timeout)
        #expect(error?.isConnectionLost == true)
        #expect(!connection.isOpen)
        let next = #expect(throws: PostgresError.self) { try connection.execute("SELECT 1") }
        #expect(next?.kind == .connectionLost)
        connection.close()
        connection.close()
    }

    @Test func theServersOwnTimeoutLeavesItOpen() throws {
        let connection = try TestDatabase.connect()
        try connection.execute("SET statement_timeout = 30")
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT pg_sleep(30)") }
        #expect(error?.kind == .server(sqlState: "57014"))
        #expect(try connection.execute("SELECT 1").rowCount == 1)
    }

    @Test func aStatementIsCancelledFromAnotherThread() throws {
        let connection = try TestDatabase.connect()
        let handle = connection.cancelHandle
        let backend = connection.backendPID
        let canceller = Background {
            let isActive = try waitUntilActive(backend)
            return isActive && handle.cancelStatement()
        }
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT pg_sleep(30)") }
        #expect(error?.kind == .server(sqlState: "57014"))
        #expect(try canceller.join())
        #expect(try connection.execute("SELECT 1").rowCount == 1)
    }

    @Test func anAbandonedCallEndsAtOnce() throws {
        let connection = try TestDatabase.connect()
        let handle = connection.cancelHandle
        let backend = connection.backendPID
        let stopper = Background {
            _ = try waitUntilActive(backend)
            handle.abandon()
        }
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT pg_sleep(30)") }
        #expect(error?.kind == .cancelled)
        try stopper.join()
        #expect(throws: PostgresError.self) { try connection.execute("SELECT 1") }
        // A handle may outlive its connection.
        handle.abandon()
    }

    @Test func connectErrorsSayWhere() throws {
        let nowhere = PostgresURL(socketDirectory: "/nonexistent", user: "u", database: "d")
        let error = #expect(throws: PostgresError.self) { try PostgresConnection(nowhere) }
        #expect(error?.kind == .connect)
        #expect(error.map { "\($0)".contains("/nonexistent") } ?? false)
        let unknown = try TestDatabase.url().withDatabase("no_such_database")
        let second = #expect(throws: PostgresError.self) { try PostgresConnection(unknown) }
        #expect(second?.kind == .connect)
    }

    @Test func aSilentHostTakesItsShareOfTheDeadline() throws {
        let silent = try SilentServer()
        var settings = PostgresConnectionSettings()
        settings.connectTimeoutMilliseconds = 200
        let alone = try PostgresURL(
            "host=127.0.0.1 port=\(silent.port) user=pathmirror dbname=pathmirror sslmode=disable")
        let error = #expect(throws: PostgresError.self) { try PostgresConnection(alone, settings: settings) }
        #expect(error?.kind == .connect)
        #expect(error.map { "\($0)".contains("no answer in time from 127.0.0.1:\(silent.port)") } ?? false)
        let socket = try socketDirectory()
        settings.connectTimeoutMilliseconds = 2_000
        let both = try PostgresURL(
            "host=127.0.0.1,\(socket) port=\(silent.port),5432 user=pathmirror dbname=pathmirror sslmode=disable")
        #expect(try PostgresConnection(both, settings: settings).execute("SELECT 1").rowCount == 1)
    }

    private func socketDirectory() throws -> String {
        let result = try TestDatabase.connect().execute("SHOW unix_socket_directories")
        return try result.string(0, 0).filter { $0 != "\"" }
    }
}

/// Accepts connections in the kernel's queue and never sends anything.
final class SilentServer {
    let port: UInt16
    private let descriptor: Int32

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        self.descriptor = descriptor
        port = UInt16(bigEndian: address.sin_port)
        guard isBound else { throw CannotListen() }
    }

    deinit {
        close(descriptor)
    }

    struct CannotListen: Error {}
}
