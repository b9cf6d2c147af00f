import Glibc
import Postgres
import PostgresCluster
import Testing

/// Checks that a caller that loses its connection learns that the outcome is unknown, and never waits for an answer
/// that cannot arrive. The backend terminates itself, or the server is killed, in the middle of a call.
@Suite struct LostConnectionTests {
    private static let suicide = "SELECT pg_terminate_backend(pg_backend_pid())"

    @Test func aPipelineCutInTheMiddle() throws {
        let connection = try TestDatabase.connect()
        let table = "cut_\(connection.backendPID)"
        try connection.execute("CREATE TABLE \(table) (v int8)")
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline([
                .query("BEGIN"), .query("INSERT INTO \(table) VALUES (1)"), .query(Self.suicide), .query("COMMIT"),
            ])
        }
        #expect(error?.kind == .connectionLost)
        #expect(error?.sqlState == "57P01")
        #expect(!connection.isOpen)
        let next = #expect(throws: PostgresError.self) { try connection.pipeline([.query("SELECT 1")]) }
        #expect(next?.kind == .connectionLost)
        let other = try TestDatabase.connect()
        #expect(try other.execute("SELECT count(*) FROM \(table)").int64(0, 0) == 0)
        try other.execute("DROP TABLE \(table)")
    }

    @Test func everyOtherCall() throws {
        let calls: [(PostgresConnection) throws -> Void] = [
            { try $0.execute(Self.suicide) },
            { try $0.executeScript(Self.suicide) },
            { try $0.executePrepared(PostgresStatement("end", Self.suicide)) },
            {
                try $0.forEachRow("SELECT pg_terminate_backend(pg_backend_pid()) FROM generate_series(1, 100000)") {
                    _ in
                }
            },
            {
                try $0.copyOut(
                    "COPY (SELECT pg_terminate_backend(pg_backend_pid()) FROM generate_series(1, 100000)) TO STDOUT"
                ) { _ in }
            },
        ]
        for (index, call) in calls.enumerated() {
            let connection = try TestDatabase.connect()
            let error = #expect(throws: PostgresError.self, "call \(index)") { try call(connection) }
            #expect(error?.kind == .connectionLost, "call \(index)")
            #expect(!connection.isOpen)
        }
    }

    @Test func anIdleConnectionThatWasEnded() throws {
        let connection = try TestDatabase.connect()
        let other = try TestDatabase.connect()
        try other.execute("SELECT pg_terminate_backend($1, 10000)", [.int4(connection.backendPID)])
        let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT 1") }
        #expect(error?.kind == .connectionLost)
    }

    @Test func copyInAndListening() throws {
        let other = try TestDatabase.connect()
        let copying = try TestDatabase.connect()
        try copying.execute("CREATE TEMP TABLE c (v int8)")
        let error = #expect(throws: PostgresError.self) {
            try copying.copyIn("COPY c FROM STDIN") { writer in
                try other.execute("SELECT pg_terminate_backend($1, 10000)", [.int4(copying.backendPID)])
                for value in 0..<100_000 as Range<Int64> {
                    writer.beginRow()
                    writer.appendInt8(value)
                    try writer.endRow()
                }
            }
        }
        #expect(error?.isConnectionLost == true)
        let listening = try TestDatabase.connect()
        try listening.execute("LISTEN nothing")
        try other.execute("SELECT pg_terminate_backend($1, 10000)", [.int4(listening.backendPID)])
        let second = #expect(throws: PostgresError.self) {
            while true { _ = try listening.waitForNotifications(timeoutMilliseconds: 10_000) }
        }
        #expect(second?.kind == .connectionLost)
    }

    @Test func theWholeServerIsKilled() throws {
        let directory = "/tmp/pathmirror-postgres-tests-kill-\(getpid())"
        defer { removeTree(directory) }
        var settings = ClusterSettings(dataDirectory: directory)
        settings.durability = .testFast
        let cluster = try PostgresCluster.start(settings)
        let connection = try PostgresConnection(cluster.url)
        let url = cluster.url
        let backend = connection.backendPID
        let killer = Background {
            let observer = try PostgresConnection(url)
            let isActive = try eventually {
                try observer.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1::int4 AND wait_event = 'PgSleep'", [.int4(backend)]
                ).rowCount == 1
            }
            cluster.killHard()
            return isActive
        }
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline([.query("BEGIN"), .query("SELECT pg_sleep(60)"), .query("COMMIT")])
        }
        #expect(error?.kind == .connectionLost)
        #expect(try killer.join())
        #expect(!cluster.isRunning)
        let refused = #expect(throws: PostgresError.self) { try PostgresConnection(url) }
        #expect(refused?.kind == .connect)
    }
}
