import LogStore
import Postgres
import TestSupport
import Testing

/// Tests of the error for a schema that cannot be created: the missing privilege, and the role that can grant it.
@Suite struct SchemaMakingTests {
    /// Runs `body` with a new database and a session of a new role that may only connect.
    private static func asStranger(
        isMigrated: Bool = false,
        _ body: (_ administrator: PostgresConnection, _ session: PostgresConnection, _ role: String) throws -> Void
    ) throws {
        func run(_ url: PostgresURL) throws {
            let administrator = try PostgresConnection(url)
            defer { administrator.close() }
            let role = "stranger_of_\(url.databaseName ?? "")"
            try administrator.executeScript("create role \(role)")
            defer { try? administrator.executeScript("drop owned by \(role); drop role \(role)") }
            let session = try PostgresConnection(url)
            defer { session.close() }
            try session.executeScript("set session authorization \(role)")
            try body(administrator, session, role)
        }
        if isMigrated { try TestDatabase.with(run) } else { try TestDatabase.withEmpty(run) }
    }

    private static func refusal(_ body: () throws -> Void) throws -> PostgresError {
        do {
            try body()
        } catch let error as PostgresError {
            return error
        } catch LogStoreError.database(let error) {
            return error
        }
        throw MissingError()
    }

    private struct MissingError: Error {}

    /// Executes the statement in the hint, which must resolve the error.
    private static func grant(_ error: PostgresError, as administrator: PostgresConnection) throws {
        let hint = try #require(error.hint)
        let start = try #require(hint.firstRange(of: "grant ")).lowerBound
        try administrator.executeScript(String(hint[start...]))
    }

    @Test(arguments: ["plain", "has \"quotes\" and 'others'", "$made$", "back\\slash", "\u{301}'\u{301}"])
    func theDatabasesPrivilegeIsNamed(schema: String) throws {
        try Self.asStranger { administrator, session, role in
            let sql = SchemaMaking.sql(schema)
            let error = try Self.refusal { try session.executeScript(sql) }
            let database = try administrator.execute("select current_database()").string(0, 0)
            #expect(error.sqlState == "42501")
            #expect(error.message.hasPrefix("the role \(role) lacks the privilege CREATE on the database \(database)"))
            #expect(
                error.hint
                    == "as a superuser or the owner of the database: grant create on database \(database) to \(role)")
            try Self.grant(error, as: administrator)
            for _ in 0..<2 { try session.executeScript(sql) }
            #expect(
                try administrator.execute("select count(*) from pg_namespace where nspname = $1", [.text(schema)])
                    .int64(0, 0) == 1)
        }
    }

    /// Checks that an existing schema needs no privilege on the database, as after a restore, which loses grants on the
    /// database.
    @Test func aSchemaThatIsThereTakesNothingOfTheDatabase() throws {
        try Self.asStranger { administrator, session, role in
            try administrator.executeScript("create schema there authorization \(role)")
            try session.executeScript(SchemaMaking.sql("there") + "; create table there.made (x int)")
        }
    }

    @Test func theSchemasPrivilegeIsNamed() throws {
        try Self.asStranger { administrator, session, role in
            try administrator.executeScript("create schema there")
            let error = try Self.refusal { try session.executeScript(SchemaMaking.sql("there")) }
            #expect(error.message == "the role \(role) lacks the privilege CREATE or USAGE on the schema there")
            let owner = try administrator.execute("select quote_ident(current_user)").string(0, 0)
            #expect(
                error.hint == "as \(owner), the owner of the schema: grant create, usage on schema there to \(role)")
            try Self.grant(error, as: administrator)
            try session.executeScript(SchemaMaking.sql("there") + "; create table there.made (x int)")
        }
    }

    @Test func theMigratingRoleMayCreateTheSchema() throws {
        try Self.asStranger { administrator, session, role in
            let error = try Self.refusal { _ = try Migrations.up(session) }
            #expect(error.hint?.contains("grant create on database") == true)
            #expect(!session.isInTransaction)
            try Self.grant(error, as: administrator)
            try session.executeScript(SchemaMaking.sql("pathmirror"))
            let database = try administrator.execute("select current_database()").string(0, 0)
            try administrator.executeScript("revoke create on database \(database) from \(role)")
            #expect(try Migrations.up(session).migrations.count == Migrations.all.count)
            #expect(try Migrations.up(session).isEmpty)
        }
    }

    @Test func otherRolesLearnTheOwnerOfTheSchema() throws {
        try Self.asStranger(isMigrated: true) { administrator, session, role in
            let error = try Self.refusal { _ = try Migrations.up(session) }
            let owner = try administrator.execute("select quote_ident(current_user)").string(0, 0)
            #expect(error.message == "the role \(role) does not own the schema pathmirror, which belongs to \(owner)")
            #expect(error.hint?.hasPrefix("migrate as \(owner)") == true)
        }
    }

    @Test func aMirrorsDatabaseToo() throws {
        try Self.asStranger { administrator, session, role in
            let error = try Self.refusal { try MirrorTargetSchema.make(session) }
            #expect(error.hint?.contains("grant create on database") == true)
            try Self.grant(error, as: administrator)
            try MirrorTargetSchema.make(session)
        }
    }
}
