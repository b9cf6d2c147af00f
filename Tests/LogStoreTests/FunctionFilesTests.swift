import Crypto
import Glibc
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// Tests of the files of `migrations/functions`: the objects that they create, when they are applied, and the
/// privileges.
@Suite struct FunctionFilesTests {
    // MARK: Objects

    @Test func aDatabaseOfBeforeHasTheSameFunctionsAfterwards() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            _ = try Migrations.up(connection, through: 12)
            let before = try Definitions(connection)
            #expect(before.functions.count > 40)
            #expect(before.views.count == 4)
            let done = try Migrations.up(connection)
            #expect(done.migrations.first?.version == 13)
            #expect(done.functionFiles == FunctionFiles.all.map(\.name))
            let after = try Definitions(connection)
            // Later migrations have added functions, and have changed these functions and the view.
            let changed: Set = [
                "pathmirror.apply_change(bigint,bigint,text,text[],text[])", "pathmirror.begin_entry(bigint)",
                "pathmirror.ensure_log_partition(bigint,bigint,bigint)",
                "pathmirror.log_cursor", "pathmirror.namespace_id(text)", "pathmirror.remove(text,text)",
                "pathmirror.replace_rows(bigint,bigint,text,text[],text[])", "pathmirror.same_scalar(json,json)",
                "pathmirror.save_session(bigint,text,uuid,bigint,bigint,boolean,json,json)",
                "pathmirror.set(text,text,jsonb)", "pathmirror.transaction_batch()",
                "pathmirror.update(text,text,jsonb)", "pathmirror.write(bigint,text,text,text[],jsonb[],text)",
            ]
            #expect(
                before.functions.filter { !changed.contains($0.key) }.mapValues(Self.withoutComments)
                    == after.functions.filter { before.functions[$0.key] != nil && !changed.contains($0.key) }
                    .mapValues(Self.withoutComments))
            #expect(
                before.views.filter { !changed.contains($0.key) }
                    == after.views.filter { before.views[$0.key] != nil && !changed.contains($0.key) })
            var comments = before.comments
            // Migration 022 drops one function.
            comments["pathmirror.write(bigint,text,text,text[],jsonb[],text)"] = nil
            #expect(comments == after.comments.filter { comments[$0.key] != nil })
            // Migration 013 revokes unintended privileges from PUBLIC.
            var granted = before.privileges
            for name in [
                "claim_session(bigint,text,uuid,bigint)",
                "save_session(bigint,text,uuid,bigint,bigint,boolean,json,json)",
            ] {
                #expect(granted["pathmirror.\(name)"]?.contains("PUBLIC") == true)
                granted["pathmirror.\(name)"]?.removeAll { $0 == "PUBLIC" }
            }
            granted["pathmirror.write(bigint,text,text,text[],jsonb[],text)"] = nil
            #expect(granted == after.privileges.filter { granted[$0.key] != nil })
        }
    }

    @Test func aNewDatabaseHasTheSameFunctionsAsAnUpgradedOne() throws {
        try TestDatabase.withEmpty { url in
            let upgraded = try PostgresConnection(url)
            defer { upgraded.close() }
            _ = try Migrations.up(upgraded, through: 12)
            _ = try Migrations.up(upgraded)
            let expected = try Definitions(upgraded)
            try withDatabase { url in
                let new = try PostgresConnection(url)
                defer { new.close() }
                #expect(try Definitions(new) == expected)
            }
        }
    }

    /// Checks that the files create every function and view without the migrations, in an order that PostgreSQL
    /// accepts.
    @Test func theFilesAloneMakeAllFunctionsAndViews() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let before = try Definitions(connection)
            try connection.executeScript(
                """
                do $$
                declare
                    one text;
                begin
                    for one in select oid::regclass from pg_class
                        where relnamespace = 'pathmirror'::regnamespace and relkind = 'v' loop
                        execute 'drop view ' || one;
                    end loop;
                    for one in select oid::regprocedure from pg_proc where pronamespace = 'pathmirror'::regnamespace loop
                        -- With triggers that call it: they are in the files, too.
                        execute 'drop function ' || one || ' cascade';
                    end loop;
                end
                $$;
                delete from pathmirror.function_file
                """)
            #expect(try Definitions(connection).functions.isEmpty)
            #expect(try Migrations.up(connection).functionFiles == FunctionFiles.all.map(\.name))
            #expect(try Definitions(connection) == before)
        }
    }

    /// Checks that every function and view of the schema is in exactly one file, since migrations no longer create any.
    @Test func everyFunctionIsInOneFile() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let rows = try connection.execute(
                """
                select 'function', proname::text from pg_proc where pronamespace = 'pathmirror'::regnamespace
                union all
                select 'view', relname::text from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'v'
                """)
            var counts: [String: Int] = [:]
            for row in 0..<rows.rowCount {
                counts[
                    "create or replace \(try rows.string(row, 0)) pathmirror.\(try rows.string(row, 1))", default: 0] +=
                    1
            }
            let text = try Self.files().values.joined(separator: "\n")
            for (statement, count) in counts {
                // A function's name ends at its parameters, a view's at " as".
                let found =
                    text.ranges(of: "\(statement)(").count + text.ranges(of: "\(statement) as").count
                    + text.ranges(of: "\(statement) with (").count
                #expect(found == count, "\(statement)")
            }
        }
    }

    /// Checks that the program embeds exactly the files of the folder, under their names.
    @Test func allFilesAreEmbedded() throws {
        let files = try Self.files()
        #expect(Set(files.keys) == Set(FunctionFiles.all.map(\.name)))
        for file in FunctionFiles.all {
            let text = try #require(files[file.name])
            #expect(file.checksum == Hex.encode(Digest.sha256(Array(text.utf8))), "\(file.name)")
        }
        #expect(FunctionFiles.all.last?.name == "privileges")
    }

    /// Checks that a changed file comes with a migration (see CONTRIBUTING.md), which changes this pair, too. Otherwise
    /// gateways of two versions would overwrite each other's functions.
    @Test func aChangedFileComesWithAMigration() {
        let checksums = FunctionFiles.all.map { "\($0.name) \($0.checksum)" }.joined(separator: "\n")
        let digest = Hex.encode(Digest.sha256(Array(checksums.utf8)))
        #expect("\(Migrations.newest) \(digest.prefix(16))" == "30 a3684eacb1623cf3")
    }

    // MARK: Application

    @Test func anUnchangedFileIsNotAppliedAgain() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let before = try Self.versions(connection)
            #expect(try Migrations.up(connection).isEmpty)
            #expect(try Self.versions(connection) == before)
            #expect(try FunctionFiles.status(connection).allSatisfy { $0.appliedAt != nil })
        }
    }

    @Test func aChangedFileIsAppliedAgainAndTheOthersAreNot() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let before = try Self.versions(connection)
            let files = Self.replacing("partitions", with: Self.partitions(returning: 1))
            let done = try Migrations.up(connection, functions: files)
            #expect(done.migrations.isEmpty)
            #expect(done.functionFiles == ["partitions", "privileges"])
            #expect(try connection.execute("select pathmirror.ensure_log_partition(1, 1, 1)").int64(0, 0) == 1)
            let after = try Self.versions(connection)
            #expect(after["partitions"] != before["partitions"])
            #expect(
                after.filter { !["partitions", "privileges"].contains($0.key) }
                    == before.filter { !["partitions", "privileges"].contains($0.key) })
            // The changed files are applied only once, until the first files are applied again.
            #expect(try Migrations.up(connection, functions: files).isEmpty)
            #expect(try Migrations.up(connection).functionFiles == ["partitions", "privileges"])
            #expect(try Definitions(connection) == Self.expected())
        }
    }

    /// Checks that an administrator's own grants survive a new version of a function.
    @Test func grantsAndOwnersStay() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let role = "reports_\(UInt32.random(in: 0 ... .max))"
            try connection.executeScript(
                "create role \(role); grant execute on function pathmirror.ensure_log_partition(bigint, bigint, bigint) to \(role)"
            )
            defer { try? connection.executeScript("drop owned by \(role); drop role \(role)") }
            let before = try Definitions(connection).privileges
            _ = try Migrations.up(
                connection, functions: Self.replacing("partitions", with: Self.partitions(returning: 2)))
            #expect(try Definitions(connection).privileges == before)
            #expect(before["pathmirror.ensure_log_partition(bigint,bigint,bigint)"]?.contains(role) == true)
        }
    }

    /// Checks that a function that replaces one with another signature has no privileges until they are granted: a
    /// migration drops the old one.
    @Test(arguments: [
        "create or replace function pathmirror.is_new(a integer) returns integer language sql as 'select 1';",
        "drop function pathmirror.newest_place(tid); "
            + "create or replace function pathmirror.newest_place(a integer) returns integer language sql as 'select 1';",
    ])
    func recreatedObjectsAreNotPublic(sql: String) throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let privileges = Self.text("privileges").replacing("'newest_place(tid)',", with: "")
            var files = Self.replacing("partitions", with: sql)
            files[files.count - 1] = FunctionFiles.File(name: "privileges", sql: Array(privileges.utf8))
            _ = try Migrations.up(connection, functions: files)
            let open = try Definitions(connection).privileges.filter { $0.value.contains("PUBLIC") }
            #expect(open.isEmpty)
        }
    }

    @Test func aFailingFileTakesEverythingBack() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let before = try Self.versions(connection)
            var files = Self.replacing("partitions", with: Self.partitions(returning: 3))
            let last = try #require(files.firstIndex { $0.name == "wait_for" })
            files[last] = FunctionFiles.File(name: "wait_for", sql: Array("create or replace nonsense".utf8))
            #expect(throws: LogStoreError.self) { try Migrations.up(connection, functions: files) }
            #expect(try Self.versions(connection) == before)
            #expect(try Definitions(connection) == Self.expected())
            // The connection is usable, and holds no locks.
            #expect(try Migrations.up(connection).isEmpty)
        }
    }

    /// Checks that the newest migration and the files share a transaction: a failed upgrade leaves the previous
    /// version.
    @Test func aFailingFileTakesTheNewestMigrationBack() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let files = Self.replacing("reading", with: "select 1/0")
            #expect(throws: LogStoreError.self) {
                try Migrations.up(connection, functions: files, usesBaseline: false)
            }
            let missing = try Migrations.status(connection).filter { $0.appliedAt == nil }.map(\.version)
            #expect(missing == [Migrations.newest])
            #expect(try FunctionFiles.status(connection).allSatisfy { $0.appliedAt == nil })
            #expect(try Migrations.up(connection).migrations.map(\.version) == [Migrations.newest])
            #expect(try Definitions(connection) == Self.expected())
        }
    }

    @Test func severalAtOnceApplyEachOnce() throws {
        try TestDatabase.withEmpty { url in
            let first = try PostgresConnection(url)
            defer { first.close() }
            _ = try Migrations.up(first, through: 12)
            let done = MutexBox<[String]>([])
            let failures = MutexBox<[String]>([])
            let threads = (0..<5).map { _ in
                Thread(name: "migrate") {
                    do {
                        let connection = try PostgresConnection(url)
                        defer { connection.close() }
                        let files = try Migrations.up(connection).functionFiles
                        done.withLock { $0 += files }
                    } catch {
                        failures.withLock { $0.append("\(error)") }
                    }
                }
            }
            for thread in threads { thread.join() }
            #expect(failures.withLock { $0 } == [])
            #expect(done.withLock { $0 } == FunctionFiles.all.map(\.name))
        }
    }

    /// Checks that a file that the program no longer contains is forgotten. A migration must drop its functions.
    @Test func aFileThatIsGoneIsForgotten() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let more =
                FunctionFiles.all.dropLast() + [
                    FunctionFiles.File(name: "more", sql: Array("select 1".utf8)),
                    FunctionFiles.all[FunctionFiles.all.count - 1],
                ]
            #expect(try Migrations.up(connection, functions: Array(more)).functionFiles == ["more", "privileges"])
            #expect(throws: LogStoreError.self) { try Migrations.check(connection) }
            #expect(try Migrations.up(connection).functionFiles == ["privileges"])
            #expect(try Self.versions(connection)["more"] == nil)
            try Migrations.check(connection)
        }
    }

    // MARK: Checks by gateways

    @Test(arguments: [
        "update pathmirror.function_file set checksum = 'x' where name = 'head'",
        "delete from pathmirror.function_file where name = 'head'",
        "insert into pathmirror.function_file (name, checksum) values ('head2', 'x')",
    ])
    func otherFunctionsAreRefused(change: String) throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try Migrations.check(connection)
            try connection.executeScript(change)
            do {
                try Migrations.check(connection)
                Issue.record("functions of another program were accepted")
            } catch let error as LogStoreError {
                guard case .functionsChanged(let file) = error else { throw error }
                #expect(file.hasPrefix("head"))
                #expect("\(error)".contains("'pathmirror migrate up'"))
            }
            _ = try Migrations.up(connection)
            try Migrations.check(connection)
        }
    }

    @Test func statusSaysWhichTextIsMissing() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            #expect(try FunctionFiles.status(connection).map(\.name) == FunctionFiles.all.map(\.name))
            #expect(try FunctionFiles.status(connection).allSatisfy { $0.appliedAt == nil })
            _ = try Migrations.up(connection)
            try connection.executeScript("update pathmirror.function_file set checksum = 'x' where name = 'tree'")
            #expect(try FunctionFiles.status(connection).filter { $0.appliedAt == nil }.map(\.name) == ["tree"])
        }
    }

    /// Checks that `serve --no-migrate` can run as a member of the gateways' role.
    @Test func theGatewaysRoleMayCheckAndMayNotApply() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("set session authorization pathmirror_gateway")
            try Migrations.check(connection)
            for statement in [
                "update pathmirror.function_file set checksum = 'x'", "delete from pathmirror.function_file",
                "insert into pathmirror.function_file (name, checksum) values ('x', 'x')",
                "create or replace function pathmirror.is_key(key text) returns boolean language sql as 'select true'",
            ] {
                #expect(throws: PostgresError.self, "\(statement)") { try connection.executeScript(statement) }
            }
        }
    }

    // MARK: Helpers

    /// The definitions of a database that was migrated as usual.
    private static func expected() throws -> Definitions {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            return try Definitions(connection)
        }
    }

    private static func replacing(_ name: String, with sql: String) -> [FunctionFiles.File] {
        FunctionFiles.all.map { $0.name == name ? FunctionFiles.File(name: name, sql: Array(sql.utf8)) : $0 }
    }

    private static func text(_ name: String) -> String { (try? files()[name]) ?? "" }

    private static func partitions(returning number: Int) -> String {
        """
        create or replace function pathmirror.ensure_log_partition(
            of_namespace bigint, needed bigint, entries_each bigint
        ) returns bigint
        language plpgsql security definer set search_path = pg_catalog, pg_temp as 'begin return \(number); end';
        """
    }

    /// The lines of a definition that are not comments: the old migrations keep their comments.
    private static func withoutComments(_ definition: String) -> String {
        definition.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("--") }.joined(separator: "\n")
    }

    /// The version of each file's table row, which changes with each application.
    private static func versions(_ connection: PostgresConnection) throws -> [String: String] {
        let rows = try connection.execute("select name, checksum || ' ' || xmin::text from pathmirror.function_file")
        var found: [String: String] = [:]
        for row in 0..<rows.rowCount { found[try rows.string(row, 0)] = try rows.string(row, 1) }
        return found
    }

    /// The folder's files, by name without extension.
    private static func files() throws -> [String: String] {
        let folder =
            #filePath.split(separator: "/").dropLast(3).reduce(into: "") { $0 += "/\($1)" } + "/migrations/functions"
        let directory = try #require(opendir(folder))
        defer { closedir(directory) }
        var found: [String: String] = [:]
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name.hasSuffix(".sql") else { continue }
            let file = try #require(fopen("\(folder)/\(name)", "r"))
            defer { fclose(file) }
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            let count = fread(&bytes, 1, bytes.count, file)
            found[String(name.dropLast(4))] = String(decoding: bytes[..<count], as: UTF8.self)
        }
        return found
    }
}

/// The functions and views of a database's schema, by name with parameters.
private struct Definitions: Equatable {
    var functions: [String: String] = [:]
    var views: [String: String] = [:]
    var comments: [String: String] = [:]
    /// The roles that may call or read each object, sorted. PUBLIC stands for all roles.
    var privileges: [String: [String]] = [:]

    init(_ connection: PostgresConnection) throws {
        // With this path, names include their schema regardless of the role's name.
        try connection.executeScript("set search_path = pg_catalog")
        defer { try? connection.executeScript("reset search_path") }
        let rows = try connection.execute(
            """
            select 'function', oid::regprocedure::text, pg_get_functiondef(oid), coalesce(obj_description(oid, 'pg_proc'), ''),
                array_to_string(array(select case grantee when 0 then 'PUBLIC' else grantee::regrole::text end || case when is_grantable
                    and grantee <> proowner then '*' else '' end
                    from aclexplode(coalesce(proacl, acldefault('f', proowner))) order by 1), ';')
            from pg_proc where pronamespace = 'pathmirror'::regnamespace
            union all
            select 'view', oid::regclass::text, pg_get_viewdef(oid), coalesce(obj_description(oid, 'pg_class'), ''),
                array_to_string(array(select case grantee when 0 then 'PUBLIC' else grantee::regrole::text end || ' ' || privilege_type
                    from aclexplode(coalesce(relacl, acldefault('r', relowner))) order by 1), ';')
            from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'v'
            """)
        for row in 0..<rows.rowCount {
            let name = try rows.string(row, 1)
            if try rows.string(row, 0) == "view" {
                views[name] = try rows.string(row, 2)
            } else {
                functions[name] = try rows.string(row, 2)
            }
            comments[name] = try rows.string(row, 3)
            privileges[name] = try rows.string(row, 4).split(separator: ";").map(String.init)
        }
    }
}
