import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@Suite struct MigrationsTests {
    @Test func upTwiceRunsEachOnce() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            #expect(try Migrations.status(connection).allSatisfy { $0.appliedAt == nil })
            #expect(try Migrations.up(connection).migrations.map(\.version) == Migrations.all.map(\.version))
            #expect(try Migrations.up(connection).isEmpty)
            #expect(try Migrations.status(connection).allSatisfy { $0.appliedAt != nil })
            try Migrations.check(connection)
        }
    }

    /// Checks that each migration runs once and no gateway fails if several gateways start concurrently.
    @Test func severalAtOnceRunEachOnce() throws {
        try TestDatabase.withEmpty { url in
            let done = MutexBox<[Int]>([])
            let failures = MutexBox<[String]>([])
            let threads = (0..<5).map { _ in
                Thread(name: "migrate") {
                    do {
                        let connection = try PostgresConnection(url)
                        defer { connection.close() }
                        let versions = try Migrations.up(connection).migrations.map(\.version)
                        done.withLock { $0 += versions }
                    } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [])
            #expect(done.withLock { $0.sorted() } == Migrations.all.map(\.version))
        }
    }

    @Test func emptyDatabaseIsRefused() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            #expect(throws: LogStoreError.self) { try Migrations.check(connection) }
        }
    }

    @Test func newerSchemaIsRefusedAndLeftAlone() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let newer = Migrations.newest + 1
            try connection.executeScript(
                "insert into pathmirror.migration (version, name, checksum) values (\(newer), 'later', 'x')")
            for attempt in [{ try Migrations.check(connection) }, { _ = try Migrations.up(connection) }] {
                do {
                    try attempt()
                    Issue.record("a newer schema was accepted")
                } catch let error as LogStoreError {
                    guard case .schemaTooNew(let found, let known) = error else {
                        Issue.record("\(error)")
                        continue
                    }
                    #expect(found == newer)
                    #expect(known == Migrations.newest)
                }
            }
        }
    }

    @Test func changedMigrationIsRefused() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("update pathmirror.migration set checksum = 'other' where version = 1")
            for attempt in [{ try Migrations.check(connection) }, { _ = try Migrations.up(connection) }] {
                do {
                    try attempt()
                    Issue.record("a changed migration was accepted")
                } catch let error as LogStoreError {
                    guard case .migrationChanged(1) = error else {
                        Issue.record("\(error)")
                        continue
                    }
                }
            }
        }
    }
}
