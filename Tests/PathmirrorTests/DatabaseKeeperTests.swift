import HTTPClient
import LogStore
import Placement
import Postgres
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that a database that can't be started at once is still known, and does not delay the stop.
@Suite struct DatabaseKeeperTests {
    /// The advisory lock of migrating gateways (see `Migrations`).
    private static let migrationLock = 0x7061_7468_6D69_7272

    @Test func stopGivesUpTheOneThatIsBeingPrepared() throws {
        try withDatabase { primaryURL in
            try withDatabase { otherURL in
                let primary = try TestEngine(primaryURL)
                defer { primary.stop() }
                let other = try LogConnection(otherURL)
                defer { other.close() }
                let installation = try other.installation()
                // Another session migrates there and does not end.
                try other.sql.executeScript("select pg_advisory_lock(\(Self.migrationLock))")
                let client = try HTTPClient()
                defer { client.stop() }
                let databases = Databases(primary: primary.engine)
                let keeper = DatabaseKeeper(
                    try DatabaseServices.Shared(try ServiceOptionsTests.options([]), client), primary: primaryURL,
                    databases)
                let thread = Thread(name: "databases") { keeper.run() }
                let socket = try TestCluster.socketPath()
                keeper.found([
                    DatabaseRecord(
                        name: "b", host: String(socket.dropLast("/.s.PGSQL.5432".count)), port: "5432",
                        databaseName: otherURL.databaseName ?? "", installation: installation)
                ])
                #expect(databases.reachable.map(\.name) == ["home", "b"] && databases.reachable.last?.isUp == false)
                let waits = try eventually {
                    try other.sql.execute(
                        """
                        select count(*) > 0 from pg_stat_activity
                        where datname = current_database() and wait_event = 'advisory'
                        """
                    ).bool(0, 0)
                }
                #expect(waits)
                keeper.stop()
                thread.join()
                #expect(keeper.others.isEmpty && databases.all.count == 1)
            }
        }
    }
}
