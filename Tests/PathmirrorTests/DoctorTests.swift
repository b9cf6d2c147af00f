import HTTPClient
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that `doctor` finds problems, reports no false ones, and names the fix.
@Suite struct DoctorTests {
    // MARK: On a real database

    /// The findings by check, the worst first if there are several.
    private static func findings(_ database: CommandDatabase, _ arguments: [String] = []) throws -> [String: JSONText] {
        let run = try database.run(["doctor", "--json"] + arguments)
        var found: [String: JSONText] = [:]
        for finding in try run.json() { found[finding["check"]?.string ?? ""] = finding }
        let problems = found.values.filter { $0["level"]?.string == "problem" }
        #expect(run.exitCode == (problems.isEmpty ? 0 : 1), "\(run.output)\(run.errors)")
        return found
    }

    private static func level(_ finding: JSONText?) -> String? { finding?["level"]?.string }

    @Test func aGoodDatabaseHasNoProblem() throws {
        try withHistory { database throws in
            let found = try Self.findings(database)
            // The tests' own cluster trades durability for speed, which is a finding.
            let problems = found.filter { Self.level($0.value) == "problem" }
            #expect(Set(problems.keys) == ["postgresql.fsync", "postgresql.full_page_writes"])
            #expect(Self.level(found["schema.version"]) == "ok")
            #expect(Self.level(found["rights.role"]) == "ok")
            #expect(found["rights.public"] == nil)
            #expect(Self.level(found["namespaces.rules"]) == "note")
            let run = try database.run(["doctor"])
            #expect(run.exitCode == 1)
            #expect(run.output.contains("\nproblem  fsync is off: "))
            #expect(run.output.contains("\nlooked at: \(found.count) (2 problem, "))
            #expect(run.errors == "pathmirror: Problems found: 2.\n")
        }
    }

    /// Changes to a database, and the finding that each one causes.
    static let harms: [(sql: String, check: String, level: String)] = [
        (
            "insert into pathmirror.migration (version, name, checksum) values (999, 'later', 'x')", "schema.version",
            "problem"
        ),
        ("alter database %DATABASE% set default_transaction_read_only = on", "postgresql.read_only", "problem"),
        (
            "alter database %DATABASE% set default_transaction_isolation = 'serializable'", "postgresql.isolation",
            "warning"
        ),
        ("alter database %DATABASE% connection limit 8", "postgresql.connections", "problem"),
        ("grant usage on schema pathmirror to public", "rights.public", "warning"),
        ("grant execute on function pathmirror.advance(bigint, bigint, bigint) to public", "rights.public", "warning"),
        ("revoke select on pathmirror.snapshot from pathmirror_gateway", "rights.gateways", "warning"),
        ("update pathmirror.log set committed_at = now() + interval '1 hour' where seq = 8", "clock.log", "problem"),
        (
            "insert into pathmirror.gateway (id, beat, connection, seen_at) values (gen_random_uuid(), 1, 1, now() - interval '1 hour')",
            "gateways.silent", "warning"
        ),
    ]

    @Test(arguments: harms.indices) func whatIsDoneToADatabaseIsFound(_ index: Int) throws {
        let (sql, check, level) = Self.harms[index]
        try withHistory { database throws in
            let name = try #require(database.url.databaseName)
            let before = try Self.findings(database)[check]
            #expect(Self.level(before) == nil || Self.level(before) == "ok", "\(String(describing: before))")
            try database.execute(sql.replacing("%DATABASE%", with: "\"\(name)\""))
            let found = try Self.findings(database)
            #expect(Self.level(found[check]) == level, "\(found)")
            #expect(found[check]?["fix"]?.string?.isEmpty == false)
        }
    }

    @Test func aTransactionThatStaysOpenIsNamed() throws {
        try withHistory { database throws in
            let idle = try PostgresConnection(database.url)
            defer { idle.close() }
            try idle.executeScript("begin; select 1")
            let connection = try LogConnection(database.url)
            defer { connection.close() }
            let facts = try connection.activityFacts(longerThanSeconds: -1)
            #expect(facts.transactions.map(\.pid).contains(Int64(idle.backendPID)))
            let found = DatabaseDiagnosis.activity(facts)
            #expect(found.contains { $0.fix?.contains("pg_terminate_backend(\(idle.backendPID))") == true })
            #expect(try connection.activityFacts(longerThanSeconds: 3_600).transactions.isEmpty)
        }
    }

    @Test func aLockOnTheTableOfAMirrorIsNamed() throws {
        try withHistory { database throws in
            try database.execute(
                """
                create schema mirror; create table mirror.users (id text);
                insert into pathmirror.mirror (namespace_id, name, definition)
                select id, 'users', '{"table": "mirror.users"}' from pathmirror.namespace where name = 'default'
                """)
            let other = try PostgresConnection(database.url)
            defer { other.close() }
            let connection = try LogConnection(database.url)
            defer { connection.close() }
            // Writers do not lock out one another.
            try other.executeScript("begin; lock table mirror.users in row exclusive mode")
            #expect(try connection.mirrorLockFacts(longerThanSeconds: -1).locks.isEmpty)
            try other.executeScript("lock table mirror.users in share mode")
            let facts = try connection.mirrorLockFacts(longerThanSeconds: -1)
            #expect(facts.locks.map(\.pid) == [Int64(other.backendPID)])
            #expect(facts.locks.first?.mode == "ShareLock" && facts.locks.first?.mirror == "users")
            #expect(try connection.mirrorLockFacts(longerThanSeconds: 3_600).locks.isEmpty)
            let found = WorkDiagnosis.mirrorLocks(facts)
            #expect(found.map(\.check) == ["mirrors.locks"])
            #expect(found.first?.what.contains("has locked the table of mirror users of default for 0 s") == true)
            #expect(found.first?.fix?.contains("pg_terminate_backend(\(other.backendPID))") == true)
        }
    }

    @Test func aSchemaThatIsNotThere() throws {
        try TestDatabase.withEmpty { url throws in
            let found = try Self.findings(try CommandDatabase(url))
            #expect(Self.level(found["schema.version"]) == "problem")
            #expect(found["schema.version"]?["what"]?.string?.contains("migrate up") == true)
            // The remaining checks still run.
            #expect(Self.level(found["postgresql.version"]) == "ok")
        }
    }

    @Test func aDatabaseThatIsNotThere() throws {
        let run = try pathmirror(["doctor", "--database-url", "host=/nowhere dbname=x", "--json"])
        #expect(run.exitCode == 1)
        #expect(run.output.contains(#""check":"postgresql.reachable","level":"problem""#))
    }

    @Test func optionsThatServeRefusesAreAProblem() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let configured = { (text: String) in
                try Self.findings(database, ["--config", try folder.file("c", text)])
            }
            let found = try configured("dead-after = 15\n")
            #expect(Self.level(found["settings.options"]) == "problem")
            #expect(found["settings.options"]?["what"]?.string?.contains("--dead-after must be a duration") == true)
            #expect(try Self.level(configured("listen = 0.0.0.0:9000\n")["settings.tls"]) == "warning")
            #expect(try configured("listen = 127.0.0.1:9000\n")["settings.tls"] == nil)
            let after = "listen = 0.0.0.0:9000\ntrusted-proxies = 10.0.0.0/8\n"
            #expect(try Self.level(configured(after)["settings.tls"]) == "ok")
            // Options that only the start of `serve` reads are checked, too.
            for text in ["listen = 9000\n", "ns = a, b c\n", "strict-secrets = enabled\n"] {
                let run = try database.run(["doctor", "--json", "--config", try folder.file("c", text)])
                #expect(run.exitCode != 0, "\(text)")
            }
            #expect(try Self.level(configured("ns = a, b\n")["settings.options"]) == "ok")
            // The file is checked even if it contains only the database's address.
            let file = try configured("database-url = host=/nowhere\n")
            #expect(Self.level(file["settings.options"]) == "ok" && file["settings.administrators"] != nil)
            // Without settings there are no findings about them.
            let bare = try Self.findings(database)
            #expect(Self.level(bare["settings.options"]) == "note" && bare["settings.administrators"] == nil)
            // Other commands have this option, too.
            let named = try database.run(["doctor", "--json"], environment: ["PATHMIRROR_NS": "default"]).json()
            #expect(Self.level(named.first { $0["check"] == "settings.options" }) == "note")
        }
    }

    /// Checks that unknown variables are reported. A gateway ignores them too, and an option of an earlier version may have been a limit.
    @Test func variablesThatNothingReadsAreNamed() throws {
        try withCommands { database throws in
            let environment = [
                "PATHMIRROR_WRITE_BYTES_PER_MINUTE": "1000000", "PATHMIRROR_MAX_BODY": "1MiB",
                "PATHMIRROR_JSON": "true",
                "PATHMIRROR_SINK_TOKEN": "x", "PATHMIRROR_SERVICE_HOST": "10.0.0.1", "OTHER": "x",
            ]
            let run = try database.run(["doctor"], environment: environment)
            let found = try run.json().first { $0["check"]?.string == "settings.environment" }
            #expect(Self.level(found) == "warning")
            #expect(found?["what"]?.string?.hasSuffix(": PATHMIRROR_WRITE_BYTES_PER_MINUTE") == true)
            #expect(try Self.findings(database)["settings.environment"] == nil)
        }
    }

    // MARK: Several databases

    /// The findings about one database; nil selects the primary database and findings about no database.
    private static func findings(_ database: CommandDatabase, about name: String?) throws -> [String: JSONText] {
        let run = try database.run(["doctor", "--json"])
        var found: [String: JSONText] = [:]
        for finding in try run.json() where finding["database"]?.string == name {
            found[finding["check"]?.string ?? ""] = finding
        }
        return found
    }

    @Test func otherDatabasesAreCheckedLikeThePrimary() throws {
        try withHistory { primary throws in
            #expect(try Self.findings(primary)["placement.rows"] == nil, "there is no other one")
            try withHistory { other throws in
                // The tests' databases are copies of one.
                try other.execute("update pathmirror.installation set id = gen_random_uuid()")
                try primary.output("database", "add", "b", other.connectionText)
                try primary.output("namespace", "create", "shop", "--in", "b")
                var found = try Self.findings(primary, about: "b")
                #expect(Self.level(found["schema.version"]) == "ok")
                #expect(Self.level(found["clock.server"]) == "ok")
                #expect(found["schema.version"]?["what"]?.string?.hasPrefix("b: ") == true)
                // Its own `default` was not placed, and the primary database has a namespace of that name.
                #expect(Self.level(found["placement.hidden"]) == "warning")
                #expect(try Self.findings(primary, about: nil)["schema.version"] != nil)
                try other.execute("update pathmirror.namespace set name = 'other' where name = 'default'")
                found = try Self.findings(primary, about: "b")
                #expect(Self.level(found["placement.unplaced"]) == "note")
                #expect(found["placement.hidden"] == nil)
                try other.execute("update pathmirror.namespace set name = 'gone' where name = 'shop'")
                #expect(try Self.level(Self.findings(primary, about: "b")["placement.missing"]) == "problem")
                try other.execute(
                    "insert into pathmirror.migration (version, name, checksum) values (999, 'later', 'x')")
                #expect(try Self.level(Self.findings(primary, about: "b")["schema.version"]) == "problem")
                try other.execute(
                    "delete from pathmirror.migration where version = 999; update pathmirror.installation set id = gen_random_uuid()"
                )
                #expect(try Self.level(Self.findings(primary, about: "b")["placement.installation"]) == "problem")
                try primary.execute("update pathmirror.database set host = '/nowhere'")
                #expect(try Self.level(Self.findings(primary, about: "b")["postgresql.reachable"]) == "warning")
            }
        }
    }

    @Test func whereNamespacesAre() {
        func checks(_ change: (inout PlacementFacts) -> Void) -> [String] {
            var facts = PlacementFacts()
            facts.placed = ["x": "b", "y": "c"]
            facts.inPrimary = ["z"]
            facts.present = ["b": ["x"], "c": ["y"]]
            change(&facts)
            return PlacementDiagnosis.findings(facts).map { "\($0.check) \($0.level)" }
        }
        #expect(checks { _ in } == ["placement.rows ok"])
        #expect(checks { $0.present["b"] = nil } == ["placement.rows ok"], "that it can't be asked is told elsewhere")
        #expect(checks { $0.present["b"] = [] } == ["placement.missing problem"])
        #expect(checks { $0.inPrimary.insert("x") } == ["placement.home problem"])
        #expect(checks { $0.present["c"]?.insert("x") } == ["placement.hidden warning"])
        #expect(checks { $0.present["c"]?.insert("z") } == ["placement.hidden warning"])
        #expect(checks { $0.present["c"]?.insert("w") } == ["placement.unplaced note"])
        let move = MoveRecord(namespace: "x", source: "b", target: "c", beganAt: "today")
        #expect(checks { $0.moves = [move] } == ["placement.moving warning"])
        let arrived = MoveRecord(namespace: "x", source: "b", target: "c", beganAt: "today", hasLeft: true)
        #expect(
            checks {
                $0.moves = [arrived]
                $0.placed["x"] = "c"
                $0.present = ["b": [], "c": ["x", "y"]]
            } == ["placement.moving warning"], "it is served where it is")
        #expect(
            checks {
                $0.moves = [move]
                $0.present["b"] = []
                $0.hidden["c"] = HiddenNamespaces(copies: ["x"])
            } == ["placement.moving problem"], "nobody is served it")
        #expect(
            checks {
                $0.moves = [move]
                $0.present["b"] = nil
            } == ["placement.moving warning"], "who knows")
        #expect(checks { $0.hidden["home"] = HiddenNamespaces(copies: ["x"]) }.first == "placement.copies warning")
        #expect(checks { $0.hidden["b"] = HiddenNamespaces(aside: [".kept/x"]) }.first == "placement.aside note")
    }

    // MARK: Judgements

    private static func server(_ change: (inout ServerFacts) -> Void = { _ in }) -> [Finding] {
        var facts = ServerFacts()
        facts.versionNumber = 150_004
        facts.version = "15.4"
        facts.encoding = "UTF8"
        facts.settings = [
            "fsync": "on", "full_page_writes": "on", "autovacuum": "on", "track_counts": "on", "max_connections": "100",
            "superuser_reserved_connections": "3", "default_transaction_read_only": "off",
            "default_transaction_isolation": "read committed",
        ]
        facts.clockMilliseconds = 1_000_000
        facts.seesAllSessions = true
        change(&facts)
        return ServerDiagnosis.findings(facts, machineMilliseconds: 1_000_000, connectionsEach: 16, gateways: 2)
    }

    @Test func programsOfGateways() {
        func judge(_ programs: [String: Int64]) -> [Finding] {
            var facts = GatewayFacts()
            facts.programs = programs
            return WorkDiagnosis.programs(facts, this: "0.2.0, schema 17")
        }
        #expect(judge([:]).isEmpty)
        #expect(judge(["0.2.0, schema 17": 3]).map(\.level) == [.ok])
        #expect(judge(["0.1.0, schema 16": 3]).map(\.level) == [.warning])
        #expect(judge(["": 1]).map(\.level) == [.warning])
        let mixed = judge(["0.2.0, schema 17": 1, "": 2])
        #expect(mixed.map(\.level) == [.warning])
        #expect(
            mixed.first?.what
                == "connected gateways: 1 of 0.2.0, schema 17; 2 of a version without a program name")
    }

    /// Also if the schema has another version, as in the middle of an update.
    @Test func gatewaysOfOtherVersionsAreFound() throws {
        try withHistory { database throws in
            #expect(try Self.findings(database)["gateways.versions"] == nil)
            let name = "pathmirror tail \(VersionCommand.program)"
            let mine = try PostgresConnection(database.url.withApplicationName(name))
            defer { mine.close() }
            #expect(try Self.level(Self.findings(database)["gateways.versions"]) == "ok")
            let older = try PostgresConnection(database.url.withApplicationName("pathmirror tail"))
            defer { older.close() }
            try database.execute(
                "insert into pathmirror.migration (version, name, checksum) values (999, 'later', 'x')")
            let found = try Self.findings(database)["gateways.versions"]
            #expect(Self.level(found) == "warning")
            #expect(found?["what"]?.string?.contains("1 of \(VersionCommand.program); 1 of a version without") == true)
        }
    }

    @Test func servers() {
        #expect(Self.server().allSatisfy { $0.level == .ok })
        let changes: [(String, Finding.Level, (inout ServerFacts) -> Void)] = [
            ("postgresql.version", .problem, { $0.versionNumber = 140_011 }),
            ("postgresql.standby", .problem, { $0.isStandby = true }),
            ("postgresql.encoding", .problem, { $0.encoding = "SQL_ASCII" }),
            ("postgresql.fsync", .problem, { $0.settings["fsync"] = "off" }),
            ("postgresql.full_page_writes", .problem, { $0.settings["full_page_writes"] = "off" }),
            ("postgresql.autovacuum", .problem, { $0.settings["autovacuum"] = "off" }),
            ("postgresql.pooler", .warning, { $0.isDirect = false }),
            ("postgresql.read_only", .problem, { $0.settings["default_transaction_read_only"] = "on" }),
            ("postgresql.superuser", .note, { $0.isSuperuser = true }),
            ("postgresql.monitor", .note, { $0.seesAllSessions = false }),
            ("clock.server", .warning, { $0.clockMilliseconds -= 1_500 }),
            ("clock.server", .problem, { $0.clockMilliseconds += 61_000 }),
            ("postgresql.connections", .problem, { $0.settings["max_connections"] = "34" }),
            ("postgresql.connections", .problem, { $0.userConnectionLimit = 20 }),
            ("postgresql.connections", .warning, { $0.connections = 95 }),
        ]
        for (check, level, change) in changes {
            let found = Self.server(change).filter { $0.level != .ok }
            #expect(found.map(\.check) == [check], "\(found)")
            #expect(found.map(\.level) == [level], "\(found)")
            #expect(found.first?.fix != nil, "\(check)")
        }
    }

    @Test func standbys() {
        var facts = ReplicationFacts()
        var server = ServerFacts()
        func levels() -> [String: Finding.Level] {
            Dictionary(
                ReplicationDiagnosis.findings(facts, server).map { ($0.check, $0.level) }, uniquingKeysWith: { $1 })
        }
        #expect(levels() == ["replication.none": .note])
        // No standby can acknowledge the commits.
        server.settings["synchronous_standby_names"] = "ANY 1 (*)"
        #expect(levels() == ["replication.synchronous": .problem])
        facts.standbys = [.init(name: "b", state: "catchup", mode: "quorum", lagBytes: 10)]
        #expect(levels() == ["replication.synchronous": .problem])
        facts.standbys = [.init(name: "b", state: "streaming", mode: "quorum", lagBytes: 10)]
        #expect(levels() == ["replication.synchronous": .ok])
        server.settings["synchronous_standby_names"] = ""
        facts.standbys = [.init(name: "b", state: "streaming", mode: "async", lagBytes: 2 << 30)]
        #expect(levels() == ["replication.asynchronous": .warning, "replication.lag": .warning])
        facts.standbys = []
        facts.slots = [.init(name: "s", isActive: false, keptBytes: 2 << 30, status: "extended")]
        #expect(levels()["replication.slot"] == .warning)
        facts.slots = [.init(name: "s", isActive: false, keptBytes: 10, status: "reserved")]
        #expect(levels()["replication.slot"] == nil)
        facts.slots = [.init(name: "s", isActive: true, keptBytes: 10, status: "lost")]
        #expect(levels()["replication.slot"] == .problem)
        facts.slots = []
        facts.archivingFails = true
        #expect(levels()["replication.archive"] == nil)
        server.settings["archive_mode"] = "on"
        #expect(levels()["replication.archive"] == .problem)
    }

    @Test func disks() {
        var facts = StorageFacts()
        facts.databaseBytes = 10 << 30
        func level(_ free: Int64?) -> Finding.Level? {
            DatabaseDiagnosis.storage(facts, freeBytes: free).first { $0.check == "disk.free" }?.level
        }
        #expect(level(nil) == .note)
        #expect(level(100 << 20) == .problem)
        #expect(level((2 << 30) - 1) == .warning)
        #expect(level(50 << 30) == .ok)
        facts.transactionAge = 1_200_000_000
        facts.bloated = [.init(name: "node", liveRows: 1, deadRows: 200_000)]
        let found = DatabaseDiagnosis.storage(facts, freeBytes: 50 << 30)
        #expect(found.filter { $0.level != .ok }.map(\.check) == ["storage.age", "storage.bloat"])
    }

    @Test func readersOfTheLog() throws {
        var facts = WorkFacts()
        func reader(_ state: String, lag: Int64 = 0, failures: Int64 = 0, holding: Int64 = 0) -> WorkFacts.Reader {
            .init(
                namespace: "shop", name: "n", state: state, lagSeconds: lag, failures: failures,
                holdsBackSeconds: holding)
        }
        facts.mirrors = [reader("broken"), reader("following", lag: 400, failures: 3), reader("paused", lag: 9_000)]
        facts.feeds = [reader("not running"), reader("running", lag: 400, failures: 2, holding: 60), reader("running")]
        let found = WorkDiagnosis.findings(facts, hasRulesFile: true).filter {
            [.warning, .problem].contains($0.level)
        }
        #expect(
            found.map(\.check) == [
                "mirrors.state", "mirrors.lag", "mirrors.errors", "feeds.state", "feeds.lag", "feeds.dead",
                "feeds.retention",
            ])
        let paused = WorkDiagnosis.findings(facts, hasRulesFile: true).filter { $0.check == "mirrors.paused" }
        #expect(paused.map(\.level) == [.note])
        #expect(paused.first?.what.hasPrefix("mirror n of shop is paused, and lags by 2 h") == true)
        // The suggested commands exist, and accept their arguments.
        for fix in (found + paused).compactMap(\.fix) where fix.hasPrefix("pathmirror ") {
            let words = fix.split(separator: " ").dropFirst().map(String.init)
            let command = try #require(
                Commands.all.first { command in
                    let name = command.specification.name.split(separator: " ").map(String.init)
                    return Array(words.prefix(name.count)) == name
                }, "\(fix)")
            let rest = Array(words.dropFirst(command.specification.name.split(separator: " ").count))
            _ = try ParsedArguments(rest, command.specification, Environment(values: [:]))
        }
    }

    @Test func gateways() {
        func levels(_ answer: Result<ClientResponse, HTTPClientError>) -> [String] {
            GatewayVisit.findings("http://g", answer, machineMilliseconds: 784_111_777_000).map {
                "\($0.check) \($0.level)"
            }
        }
        func response(_ status: Int, _ date: String, _ body: String = #"{"status":"ready"}"#) -> Result<
            ClientResponse, HTTPClientError
        > {
            .success(ClientResponse(status: status, headers: [("date", date)], body: Array(body.utf8)))
        }
        #expect(levels(.failure(.timedOut)) == ["gateway.ready problem"])
        #expect(levels(response(200, "Sun, 06 Nov 1994 08:49:37 GMT")) == ["gateway.ready ok", "clock.gateway ok"])
        #expect(
            levels(response(200, "Sun, 06 Nov 1994 08:49:47 GMT")) == ["gateway.ready ok", "clock.gateway warning"])
        #expect(levels(response(200, "", "null")) == ["gateway.ready problem"])
        #expect(levels(response(503, "nonsense")) == ["gateway.ready problem"])
        #expect(levels(response(404, "Sun, 99 Foo 1994")) == ["gateway.ready problem"])
    }

    @Test func numbersOfBytes() {
        #expect(ByteCount.text(0) == "0 bytes")
        #expect(ByteCount.text(999) == "999 bytes")
        #expect(ByteCount.text(1_500) == "1.5 kB")
        #expect(ByteCount.text(999_999) == "999 kB")
        #expect(ByteCount.text(12_345_678) == "12 MB")
        #expect(ByteCount.text(9_100_000_000_000) == "9.1 TB")
        #expect(ByteCount.text(.max) == "9223 PB")
    }
}
