import Postgres
import Testing

/// Checks that a deadline limits silence only: a call may take any time while data arrives.
@Suite struct SilenceTests {
    @Test func anAnswerThatTricklesInMayTakeLong() throws {
        let connection = try TestDatabase.connect()
        connection.statementTimeoutMilliseconds = 2_000
        // Takes about four seconds without a long silence.
        let rows = try connection.execute("SELECT pg_sleep(0.1), repeat('x', 20000) FROM generate_series(1, 40)")
        #expect(rows.rowCount == 40)
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT pg_sleep(60)") }
        #expect(error?.kind == .timeout)
    }

    @Test func whatWasHeardLast() throws {
        let connection = try TestDatabase.connect()
        try connection.execute("SELECT 1")
        let first = connection.cancelHandle.lastHeardMilliseconds
        #expect(first > 0)
        try connection.execute("SELECT pg_sleep(0.05)")
        #expect(connection.cancelHandle.lastHeardMilliseconds >= first + 50)
    }

    @Test func anAbandonedConnectionIsNotOpen() throws {
        let connection = try TestDatabase.connect()
        connection.cancelHandle.abandon()
        #expect(!connection.isOpen)
    }

    @Test func aConnectionWithoutAnswerSaysSo() throws {
        let silent = try SilentServer()
        var settings = PostgresConnectionSettings()
        settings.connectTimeoutMilliseconds = 100
        let url = try PostgresURL("host=127.0.0.1 port=\(silent.port) user=me dbname=shop sslmode=disable")
        let error = #expect(throws: PostgresError.self) { try PostgresConnection(url, settings: settings) }
        #expect(error?.isSilentConnect == true)
        let refused = #expect(throws: PostgresError.self) {
            try PostgresConnection(try PostgresURL("host=/nowhere"), settings: settings)
        }
        #expect(refused?.isSilentConnect == false)
    }
}
