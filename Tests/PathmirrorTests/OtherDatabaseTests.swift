import LogStore
import Postgres
import TestSupport
import Testing

@testable import pathmirror

/// Checks that the record of another database leads only to that database, with the login for it.
@Suite struct OtherDatabaseTests {
    /// A primary database that has another database named `b`, in which `shop` is placed.
    private static func withTwo(_ body: (CommandDatabase, CommandDatabase) throws -> Void) throws {
        try withCommands { primary throws in
            try withCommands { other throws in
                // The tests' databases are copies of one.
                try other.execute("update pathmirror.installation set id = gen_random_uuid()")
                try primary.output("database", "add", "b", other.connectionText)
                try primary.output("namespace", "create", "shop", "--in", "b")
                try body(primary, other)
            }
        }
    }

    private static let commands = [
        ["namespace", "ls"], ["namespace", "show", "shop"], ["namespace", "create", "more", "--in", "b"],
        ["namespace", "rm", "shop", "--confirm", "shop"], ["database", "ls"], ["log", "ls", "--ns", "shop"],
        ["mirror", "ls", "--in", "b"], ["migrate", "up"],
    ]

    @Test func commandsRefuseAnotherDatabaseAtTheAddress() throws {
        try Self.withTwo { primary, other throws in
            try other.execute("update pathmirror.installation set id = gen_random_uuid()")
            for arguments in Self.commands {
                let run = try primary.run(arguments)
                #expect(run.exitCode == 1, "\(arguments)")
                #expect(
                    (run.output + run.errors).contains("instead of the one that was added"),
                    "\(arguments): \(run.errors)")
            }
            #expect(try primary.value("select namespace from pathmirror.placement where namespace = 'more'") == nil)
            #expect(try other.value("select name from pathmirror.namespace where name = 'shop'") == "shop")
        }
    }

    @Test func anEmptyDatabaseAtTheAddressIsNotMigrated() throws {
        try Self.withTwo { primary, _ throws in
            try TestDatabase.withEmpty { url throws in
                try primary.execute("update pathmirror.database set dbname = '\(url.databaseName ?? "")'")
                for arguments in Self.commands {
                    let run = try primary.run(arguments)
                    #expect(run.exitCode == 1, "\(arguments)")
                    #expect((run.output + run.errors).contains("(without Pathmirror's schema)"), "\(arguments)")
                }
                let empty = try CommandDatabase(url)
                #expect(try empty.value("select to_regnamespace('pathmirror')::text") == nil)
            }
        }
    }

    /// Checks that `replay tree` writes into no namespace of another database, and creates none that gateways do not find.
    @Test func aTreeIsNotRestoredIntoAnotherDatabase() throws {
        try Self.withTwo { home, other throws in
            try home.makeNamespace("default")
            try home.set("/a", "1")
            try other.set("/a", "2", "shop")
            let there = try home.failure("replay", "tree", "--at", "1", "--into", "shop", "--missing-only")
            #expect(
                there == """
                    pathmirror: Namespace "shop" is in the database b, and "default" is in home: 'replay tree' writes only into the same database. Write the tree to a file by --output instead of --into, and load it by 'pathmirror import FILE --ns shop'.

                    """)
            let back = try home.failure("replay", "tree", "--ns", "shop", "--at", "1", "--into", "default")
            #expect(back.hasPrefix("pathmirror: Namespace \"default\" is in the database home, and \"shop\" is in b"))
            let new = try home.failure("replay", "tree", "--ns", "shop", "--at", "1", "--into", "copy")
            #expect(new.contains("'pathmirror namespace create copy --in b'"))
            #expect(try other.value("select string_agg(name, ',') from pathmirror.namespace") == "shop")
            try home.output("namespace", "create", "copy", "--in", "b")
            try home.output("replay", "tree", "--ns", "shop", "--at", "1", "--into", "copy")
            #expect(try home.tree("copy") == ["a": 2])
            try home.output("replay", "tree", "--at", "1", "--into", "new")
            #expect(try home.tree("new") == ["a": 1])
        }
    }

    // MARK: Logins

    private static let secrets = "password=p passfile=f sslcert=c sslkey=k sslpassword=s"

    /// Checks that the primary database's password is used only for its user, and not sent to another host with another user.
    @Test func aLoginWithAUserTakesNoSecretOfThePrimary() throws {
        let expectations: [(login: String?, expected: String)] = [
            (nil, "user=u \(Self.secrets)"), ("password=q", "user=u \(Self.secrets) password=q"),
            ("application_name=x", "user=u \(Self.secrets) application_name=x"), ("user=v", "user=v"),
            ("user=u", "user=u"), ("user=v password=q", "user=v password=q"),
            ("user=v sslcert=c2 sslkey=k2", "user=v sslcert=c2 sslkey=k2"),
            ("user=v passfile=g", "user=v passfile=g"),
        ]
        let primary = try PostgresURL("host=h port=5 dbname=d user=u sslmode=verify-full sslrootcert=r \(Self.secrets)")
        let record = DatabaseRecord(name: "b", host: "h2", port: "6", databaseName: "e", installation: "")
        for (login, text) in expectations {
            let given = try login.map { text throws in try PostgresURL(text) }
            // The last of two equal options counts.
            let expected = try PostgresURL("host=h2 port=6 dbname=e sslmode=verify-full sslrootcert=r \(text)")
            #expect(record.url(primary: primary, login: given) == expected, "\(text)")
        }
    }

    @Test func linesMayEndWithACarriageReturn() throws {
        let text = "# NAME CONNINFO\r\nb user=v password=q\r\n\r\nc postgresql://w@h/d\r\n"
        let found = try DatabaseLogins.read(Array(text.utf8), "logins")
        #expect(found.keys.sorted() == ["b", "c"])
        #expect(try found["b"] == PostgresURL("user=v password=q"))
        #expect(try found["c"] == PostgresURL("postgresql://w@h/d"))
        let refused = #expect(throws: CommandFailure.self) {
            try DatabaseLogins.read(Array("b user=v\r\nc\r\n".utf8), "logins")
        }
        #expect(refused?.description.hasPrefix("logins, line 2: ") == true)
    }
}
