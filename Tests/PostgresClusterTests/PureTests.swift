import Testing

@testable import PostgresCluster

/// Tests of functions that need no server, including edge cases.
@Suite struct PureTests {
    private let fifteen = PostgresBinaries(directory: "/a", majorVersion: 15)
    private let seventeen = PostgresBinaries(directory: "/b", majorVersion: 17)
    private let twelve = PostgresBinaries(directory: "/c", majorVersion: 12)

    @Test func theNewestInstallationIsChosenOrTheOneThatFits() throws {
        #expect(try PostgresBinaries.choose([twelve, fifteen, seventeen], existing: nil) == seventeen)
        #expect(try PostgresBinaries.choose([seventeen, fifteen], existing: 15) == fifteen)
        let missing = #expect(throws: ClusterError.self) { try PostgresBinaries.choose([twelve], existing: nil) }
        #expect(missing?.kind == .notInstalled)
        #expect(missing?.message.contains("install the Debian package postgresql") == true)
        let unfit = #expect(throws: ClusterError.self) { try PostgresBinaries.choose([seventeen], existing: 15) }
        #expect(unfit?.message.contains("postgresql-15") == true)
    }

    @Test func versionsAreRead() {
        #expect(PostgresBinaries.majorVersion("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n") == 15)
        #expect(PostgresBinaries.majorVersion("postgres (PostgreSQL) 18beta1\n") == 18)
        #expect(PostgresBinaries.majorVersion("something else 15") == nil)
        #expect(PostgresBinaries.majorVersion("postgres (PostgreSQL)") == nil)
    }

    @Test func socketPathsHaveALimit() {
        let name = "/.s.PGSQL.5432"
        #expect(ClusterPaths.fitsSocket("/" + String(repeating: "a", count: 106 - name.count)))
        #expect(!ClusterPaths.fitsSocket("/" + String(repeating: "a", count: 107 - name.count)))
        #expect(!ClusterPaths.fitsSocket("/a,b"))
        #expect(ClusterPaths.fitsSocket("/a b"))
    }

    @Test func shellWordsAreQuoted() {
        #expect(shellQuoted("/run/a-b_c.1") == "/run/a-b_c.1")
        #expect(shellQuoted("it's") == #"'it'\''s'"#)
        #expect(shellQuoted("a b") == "'a b'")
        #expect(shellQuoted("") == "''")
    }

    @Test func processIDsAreRead() {
        #expect(StalePostmaster.processID("1234\n/data\n") == 1234)
        #expect(StalePostmaster.processID("-1234\n") == nil)
        #expect(StalePostmaster.processID("") == nil)
        #expect(StalePostmaster.processID(nil) == nil)
        #expect(StalePostmaster.processID("1\n") == nil)
    }

    @Test func settingsAreWrittenSafely() {
        var settings = ClusterSettings(dataDirectory: "x")
        settings.settings = ["a.b": "it's\nfsync = 'off' \\"]
        let text = ServerConfiguration.text(settings, hasLZ4: true)
        #expect(text.contains("\na.b = 'it''sfsync = ''off'' \\\\'\n"))
        #expect(!text.contains("\nfsync"))
        settings.durability = .testFast
        #expect(ServerConfiguration.text(settings, hasLZ4: true).contains("\nfsync = 'off'\n"))
    }

    @Test func exitCodes() {
        #expect(ChildProcess.exitCode(3 << 8) == 3)
        #expect(ChildProcess.exitCode(9) == 137)
    }

    @Test func parents() {
        #expect(ClusterFiles.parent(of: "/a/b") == "/a")
        #expect(ClusterFiles.parent(of: "/a") == nil)
        #expect(ClusterFiles.parent(of: "a") == ".")
        #expect(ClusterFiles.parent(of: "a/b/") == "a")
    }
}
