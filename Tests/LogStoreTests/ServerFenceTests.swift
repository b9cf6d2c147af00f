import Postgres
import TestSupport
import Testing

@testable import LogStore

/// Tests of the servers that a program accepts.
@Suite struct ServerFenceTests {
    @Test func promotionsAreFollowedAndNotUndone() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 5)) == .promoted(from: 3, to: 5))
        let refused = #expect(throws: LogStoreError.self) {
            try fence.admit(ServerIdentity(system: 7, timeline: 3))
        }
        #expect(refused?.isConnectionLost == true)
        #expect(refused.map { "\($0)".contains("timeline 3") && "\($0)".contains("timeline 5") } == true)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 5)) == .known)
    }

    /// Checks that timelines of different clusters are not compared.
    @Test func anotherCluster() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 8, timeline: 1)) == .another)
        #expect(try fence.admit(ServerIdentity(system: 8, timeline: 1)) == .known)
    }

    @Test func aRoleWithoutRightsComparesNothing() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: nil, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: nil, timeline: 1)) == .known)
    }

    private static func record(_ installation: String) -> DatabaseRecord {
        DatabaseRecord(name: "b", host: "127.0.0.1", port: nil, databaseName: "x", installation: installation)
    }

    /// Checks that each connection to a different database at a known address is refused: after a rename, a restore
    /// elsewhere, or a change of host.
    @Test func anotherDatabaseAtTheAddressIsRefusedAtEachConnection() throws {
        try withDatabase { url in
            let administrator = try LogConnection(url)
            defer { administrator.close() }
            let added = try administrator.installation()
            let fence = ServerFence(expecting: Self.record(added))
            let known = try fence.open(url, LogConnection.Settings())
            defer { known.close() }
            try administrator.sql.executeScript("update pathmirror.installation set id = gen_random_uuid()")
            let another = try administrator.installation()
            let refused = #expect(throws: LogStoreError.self) {
                try fence.open(url.withApplicationName("refused"), LogConnection.Settings())
            }
            guard case .anotherInstallation(let database, let expected, let found)? = refused else {
                Issue.record("\(String(describing: refused))")
                return
            }
            #expect(database == "b" && expected == added && found == another)
            #expect(refused?.isRefusedServer == true && refused?.isConnectionLost == true)
            #expect(refused.map { "\($0)".contains(added) && "\($0)".contains("pathmirror database add b") } == true)
            let sessions = """
                select count(*) from pg_stat_activity
                where datname = current_database() and application_name = 'refused'
                """
            #expect(try eventually { try administrator.sql.execute(sessions).int64(0, 0) == 0 }, "it was closed")
            // The refused database has not replaced the known one.
            #expect(try known.installation() == another)
            // No expected identity is configured for the primary database.
            try ServerFence().open(url, LogConnection.Settings()).close()
            try administrator.sql.executeScript("update pathmirror.installation set id = '\(added)'")
            try fence.open(url, LogConnection.Settings()).close()
        }
    }

    @Test func aDatabaseWithoutTheSchemaIsAnotherOne() throws {
        try TestDatabase.withEmpty { url throws in
            let fence = ServerFence(expecting: Self.record("00000000-0000-0000-0000-000000000001"))
            let refused = #expect(throws: LogStoreError.self) { try fence.open(url, LogConnection.Settings()) }
            guard case .anotherInstallation(_, _, nil)? = refused else {
                Issue.record("\(String(describing: refused))")
                return
            }
        }
    }
}
