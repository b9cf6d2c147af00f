import Glibc
import Testing

@testable import PostgresCluster

/// A folder for one test, removed with the object.
final class TestFolder {
    let path: String

    init() throws {
        var template = Array("/tmp/pathmirror-cluster-files-XXXXXX".utf8CString)
        path = String(cString: try #require(mkdtemp(&template)))
    }

    deinit { ClusterFiles.removeTree(path) }
}

/// Checks that the file operations succeed or report their failure.
@Suite struct FileTests {
    @Test func folders() throws {
        let folder = try TestFolder()
        let deep = folder.path + "/a/b/c"
        try ClusterFiles.createDirectory(deep, mode: 0o700)
        #expect(ClusterFiles.isDirectory(deep))
        // The parents are accessible to all users. The last folder has the requested mode.
        #expect(ClusterFiles.status(deep).map { $0.st_mode & 0o777 } == 0o700)
        #expect(ClusterFiles.status(folder.path + "/a/b").map { $0.st_mode & 0o777 } == 0o755)
        // An existing folder is unchanged.
        try ClusterFiles.createDirectory(deep, mode: 0o755)
        #expect(ClusterFiles.status(deep).map { $0.st_mode & 0o777 } == 0o700)
        #expect(!ClusterFiles.isDirectory(folder.path + "/none"))
    }

    @Test func aFileInTheWay() throws {
        let folder = try TestFolder()
        try ClusterFiles.write(folder.path + "/file", "text", mode: 0o600, owner: nil)
        let error = #expect(throws: ClusterError.self) {
            try ClusterFiles.createDirectory(folder.path + "/file/below", mode: 0o700)
        }
        #expect(error?.kind == .system)
        #expect(error?.message.hasPrefix("cannot ") == true)
        #expect(error?.message.contains(folder.path + "/file") == true)
    }

    @Test func writingAndReading() throws {
        let folder = try TestFolder()
        let path = folder.path + "/file"
        try ClusterFiles.write(path, "one\ntwo\n", mode: 0o640, owner: nil)
        #expect(ClusterFiles.read(path) == "one\ntwo\n")
        #expect(ClusterFiles.status(path).map { $0.st_mode & 0o777 } == 0o640)
        // Another text replaces the file as a whole.
        try ClusterFiles.write(path, "3", mode: 0o600, owner: nil)
        #expect(ClusterFiles.read(path) == "3")
        #expect(ClusterFiles.read(folder.path + "/none") == nil)
        #expect(throws: ClusterError.self) {
            try ClusterFiles.write(folder.path + "/none/file", "x", mode: 0o600, owner: nil)
        }
    }

    @Test(arguments: [(0, ""), (1, "8"), (3, "678"), (8, "12345678"), (100, "12345678")])
    func theEndOfAFile(_ limit: Int, _ expected: String) throws {
        let folder = try TestFolder()
        try ClusterFiles.write(folder.path + "/log", "12345678", mode: 0o600, owner: nil)
        #expect(ClusterFiles.read(folder.path + "/log", lastBytes: limit) == expected)
    }

    /// Checks files in /proc, whose reported size is zero.
    @Test func filesWithoutASize() {
        #expect(ClusterFiles.read("/proc/self/status")?.contains("Pid:") == true)
    }

    @Test func removing() throws {
        let folder = try TestFolder()
        let outside = try TestFolder()
        try ClusterFiles.write(outside.path + "/kept", "text", mode: 0o600, owner: nil)
        try ClusterFiles.createDirectory(folder.path + "/a/b", mode: 0o700)
        try ClusterFiles.write(folder.path + "/a/b/file", "text", mode: 0o600, owner: nil)
        symlink(outside.path, folder.path + "/a/link")
        symlink("nowhere", folder.path + "/a/broken")
        ClusterFiles.removeTree(folder.path + "/a")
        #expect(ClusterFiles.ownStatus(folder.path + "/a") == nil)
        // The link is removed, but not its target.
        #expect(ClusterFiles.read(outside.path + "/kept") == "text")
        // A missing file is not an error.
        ClusterFiles.removeTree(folder.path + "/a")
    }

    @Test func names() throws {
        let folder = try TestFolder()
        for name in ["b", "a", ".hidden"] {
            try ClusterFiles.write(folder.path + "/" + name, "", mode: 0o600, owner: nil)
        }
        #expect(ClusterFiles.names(in: folder.path).sorted() == [".hidden", "a", "b"])
        #expect(ClusterFiles.names(in: folder.path + "/none").isEmpty)
    }

    @Test func linksAndWhereTheyLead() throws {
        let folder = try TestFolder()
        try ClusterFiles.createDirectory(folder.path + "/real", mode: 0o700)
        symlink("real", folder.path + "/link")
        #expect(try ClusterFiles.absolute(folder.path + "/link") == ClusterFiles.absolute(folder.path + "/real"))
        #expect(
            ClusterFiles.status(folder.path + "/link")?.st_ino == ClusterFiles.status(folder.path + "/real")?.st_ino)
        #expect(
            ClusterFiles.ownStatus(folder.path + "/link")?.st_ino != ClusterFiles.status(folder.path + "/real")?.st_ino)
        let error = #expect(throws: ClusterError.self) { try ClusterFiles.absolute(folder.path + "/none") }
        #expect(error?.message == "cannot resolve \(folder.path)/none: No such file or directory")
    }

    @Test(
        arguments: [
            ("/a/b/c", "/a/b"), ("/a//b", "/a"), ("a/b", "a"), ("a", "."), ("/a/", nil), ("/", nil), ("", "."),
            ("./a", "."),
        ] as [(String, String?)]) func parents(_ path: String, _ parent: String?)
    {
        #expect(ClusterFiles.parent(of: path) == parent)
    }

    @Test func errorTexts() {
        #expect(ClusterFiles.text(ENOENT) == "No such file or directory")
        #expect(ClusterFiles.fail("do it", EACCES).description == "cannot do it: Permission denied")
        #expect(!ClusterFiles.text(99_999).isEmpty)
    }
}

/// Checks that one process at a time uses a directory, by a lock that ends with its holder.
@Suite struct DirectoryLockTests {
    @Test func oneHolder() throws {
        let folder = try TestFolder()
        var first: DirectoryLock? = try DirectoryLock(folder.path)
        let error = #expect(throws: ClusterError.self) { try DirectoryLock(folder.path) }
        #expect(error?.kind == .inUse(processID: getpid()))
        #expect(
            error?.message
                == "the data directory \(folder.path) is in use by another pathmirror (process \(getpid())): stop that process or name another directory"
        )
        withExtendedLifetime(first) {}
        first = nil
        // The file still exists, but no process holds the lock.
        #expect(ClusterFiles.read(folder.path + "/lock") == "\(getpid())\n")
        withExtendedLifetime(try DirectoryLock(folder.path)) {}
    }

    @Test func whatIsLeftOfAnother() throws {
        let folder = try TestFolder()
        try ClusterFiles.write(
            folder.path + "/lock", "99999999\nand more that is longer than a number", mode: 0o600, owner: nil)
        let lock = try DirectoryLock(folder.path)
        #expect(ClusterFiles.read(folder.path + "/lock") == "\(getpid())\n")
        withExtendedLifetime(lock) {}
    }

    /// Checks that a link is not followed, because it could redirect the write to any file.
    @Test func linksAreNotFollowed() throws {
        let folder = try TestFolder()
        try ClusterFiles.write(folder.path + "/target", "kept", mode: 0o600, owner: nil)
        symlink("target", folder.path + "/lock")
        let error = #expect(throws: ClusterError.self) { try DirectoryLock(folder.path) }
        #expect(error?.kind == .system)
        #expect(ClusterFiles.read(folder.path + "/target") == "kept")
    }

    @Test func aFolderThatIsNotThere() throws {
        let folder = try TestFolder()
        let error = #expect(throws: ClusterError.self) { try DirectoryLock(folder.path + "/none") }
        #expect(error?.message.contains("/none/lock") == true)
    }

    /// Checks that a killed process does not keep the lock.
    @Test func aKilledHolder() async throws {
        let folder = try TestFolder()
        let path = folder.path
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let lock = try DirectoryLock(path)
            kill(getpid(), SIGKILL)
            withExtendedLifetime(lock) {}
        }
        withExtendedLifetime(try DirectoryLock(folder.path)) {}
    }
}

/// Checks that programs start with a clean state, and that their output and exit status are returned.
@Suite struct ChildProcessTests {
    @Test(
        arguments: [
            (["true"], 0, ""), (["false"], 1, ""), (["sh", "-c", "echo out; echo err >&2; exit 7"], 7, "out\nerr\n"),
            (["sh", "-c", "kill -9 $$"], 137, ""), (["sh", "-c", "kill -TERM $$"], 143, ""),
            (["printf", "%s|", "a b", "", "c'd"], 0, "a b||c'd|"),
        ] as [([String], Int32, String)]) func runs(_ command: [String], _ status: Int32, _ output: String) throws
    {
        let result = try ChildProcess.run(command)
        #expect(result.status == status)
        #expect(result.output == output)
    }

    @Test func aProgramThatIsNotThere() {
        let error = #expect(throws: ClusterError.self) { try ChildProcess.run(["/nowhere/program"]) }
        #expect(error?.message == "cannot run /nowhere/program: No such file or directory")
    }

    @Test func muchOutput() throws {
        let result = try ChildProcess.run(["sh", "-c", "yes 0123456789 | head -c 1000000"])
        #expect(result.output.utf8.count == 1_000_000)
    }

    /// Checks that a program does not inherit this process's environment, input, signals and files.
    @Test func aCleanStart() throws {
        setenv("PGHOST", "elsewhere", 1)
        defer { unsetenv("PGHOST") }
        let environment = try ChildProcess.run(["env"]).output.split(separator: "\n").map(String.init)
        #expect(environment.contains("LC_ALL=C") && environment.contains("TZ=UTC"))
        #expect(!environment.contains { $0.hasPrefix("PG") || $0.hasPrefix("HOME") })
        #expect(try ChildProcess.run(["cat"]).output.isEmpty)
        let inherited = open("/dev/null", O_RDONLY)
        defer { close(inherited) }
        let listed = try ChildProcess.run(["sh", "-c", "ls /proc/$$/fd"]).output
        #expect(!listed.split(separator: "\n").contains("\(inherited)"))
        // A shell blocks all signals briefly when it starts a program.
        let signals = try ChildProcess.run(["grep", "SigBlk", "/proc/self/status"]).output
        #expect(signals.hasSuffix("0000000000000000\n"))
    }

    /// Checks that a program has its own session, so that a terminal's Ctrl-C does not reach it.
    @Test func aSessionOfItsOwn() throws {
        let process = try ChildProcess.spawn(["sleep", "60"], output: 2)
        defer {
            kill(process, SIGKILL)
            waitpid(process, nil, 0)
        }
        #expect(getsid(process) == process)
        #expect(ProcessTable.isAlive(process))
        #expect(ProcessTable.isPostmaster(process, data: "/anywhere") == .no)
        #expect(!ProcessTable.isAlive(999_999_999))
    }
}

/// Checks that PostgreSQL's configuration cannot be misinterpreted for any requested values.
@Suite struct ServerConfigurationTests {
    @Test func argumentsAreFixed() {
        let arguments = ServerConfiguration.arguments(data: "/d", socketDirectory: "/s t")
        #expect(arguments.prefix(2) == ["-D", "/d"])
        for setting in [
            "listen_addresses=", "port=5432", "unix_socket_directories=\"/s t\"", "unix_socket_permissions=0700",
        ] {
            #expect(arguments.contains(setting))
        }
        #expect(arguments.filter { $0 == "-c" }.count == (arguments.count - 2) / 2)
    }

    @Test func whatIsGivenGoesBeforeTheDefaults() {
        var given = ClusterSettings(dataDirectory: "x")
        #expect(ServerConfiguration.settings(given, hasLZ4: false)["jit"] == "off")
        #expect(ServerConfiguration.settings(given, hasLZ4: false)["fsync"] == nil)
        given.settings = ["jit": "on", "fsync": "on"]
        given.durability = .testFast
        #expect(ServerConfiguration.settings(given, hasLZ4: false)["jit"] == "on")
        #expect(ServerConfiguration.settings(given, hasLZ4: false)["fsync"] == "on")
        #expect(ServerConfiguration.settings(given, hasLZ4: false)["full_page_writes"] == "off")
    }

    @Test(arguments: [
        ("plain", "'plain'"), ("", "''"), ("it's", "'it''s'"), ("a\\b", "'a\\\\b'"), ("a\nb", "'ab'"),
        ("a\u{0}b", "'ab'"),
        ("'; x = '", "'''; x = '''"), ("é😀", "'é😀'"),
    ]) func values(_ value: String, _ written: String) {
        var given = ClusterSettings(dataDirectory: "x")
        given.settings = ["zz": value]
        #expect(ServerConfiguration.text(given, hasLZ4: false).hasSuffix("\nzz = \(written)\n"))
    }

    /// Checks that the file has one sorted line per setting, so that equal settings give equal files.
    @Test func lines() {
        let text = ServerConfiguration.text(ClusterSettings(dataDirectory: "x"), hasLZ4: true)
        let lines = text.split(separator: "\n")
        #expect(lines.first?.hasPrefix("# Written by pathmirror") == true)
        let names = lines.dropFirst().map { $0.prefix { $0 != " " } }
        #expect(names == names.sorted())
        #expect(lines.dropFirst().allSatisfy { $0.hasSuffix("'") && $0.contains(" = '") })
        #expect(text == ServerConfiguration.text(ClusterSettings(dataDirectory: "y"), hasLZ4: true))
    }

    @Test func allowedConnections() {
        let lines = ServerConfiguration.hostBasedAuthentication.split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(!lines.isEmpty)
        // Only connections through the socket, whose folder is protected.
        #expect(lines.allSatisfy { $0.hasPrefix("local ") })
    }
}

@Suite struct ClusterPathNamesTests {
    /// Checks FNV-1a against its published values.
    @Test(arguments: [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")])
    func hashes(_ text: String, _ hash: String) {
        #expect(ClusterPaths.hash(text) == hash)
    }

    @Test func hashesHaveOneLength() {
        for number in 0..<2_000 { #expect(ClusterPaths.hash("/data/\(number)").utf8.count == 16) }
        #expect(Set((0..<2_000).map { ClusterPaths.hash("/data/\($0)") }).count == 2_000)
    }

    @Test(arguments: ["'", "\"", "\\", ",", "\n"]) func whatSeparatesFoldersInSettings(_ character: String) {
        #expect(!ClusterPaths.fitsSocket("/a" + character))
        #expect(ClusterPaths.fitsSocket("/a"))
    }

    @Test func nothingRunsInAFolderWithoutACluster() throws {
        let folder = try TestFolder()
        #expect(PostgresCluster.runningURL(dataDirectory: folder.path) == nil)
        try ClusterFiles.createDirectory(folder.path + "/pgdata", mode: 0o700)
        // Parts of the file that PostgreSQL writes, and numbers of other processes.
        for text in [
            "", "1", "x\n\n\n\n\n", "\(getpid())\n/d\n1\n5432\n/run\n", "999999999\n/d\n1\n5432\n/run\n",
            "-5\n/d\n1\n5432\n/run\n",
        ] {
            try ClusterFiles.write(folder.path + "/pgdata/postmaster.pid", text, mode: 0o600, owner: nil)
            #expect(PostgresCluster.runningURL(dataDirectory: folder.path) == nil, "\(text)")
        }
    }
}

@Suite struct BinariesTests {
    @Test func theInstalledOneIsFound() throws {
        let found = try PostgresBinaries.find(existing: nil)
        #expect(found.majorVersion >= PostgresBinaries.oldestMajorVersion)
        #expect(access(found.initdb, X_OK) == 0 && access(found.postgres, X_OK) == 0)
        // Without a search path, the usual folders of distributions are searched. Relative folders are ignored.
        #expect(
            try PostgresBinaries.find(existing: found.majorVersion, searchPath: "").majorVersion == found.majorVersion)
        #expect(try PostgresBinaries.find(existing: nil, searchPath: ".:relative:").majorVersion >= 15)
    }

    @Test func aVersionThatIsNotInstalled() {
        let error = #expect(throws: ClusterError.self) { try PostgresBinaries.find(existing: 9) }
        #expect(error?.kind == .notInstalled)
        #expect(error?.message.contains("belongs to PostgreSQL 9, which is not installed") == true)
        #expect(error?.message.hasSuffix("install the Debian package postgresql-9") == true)
    }

    @Test func nothingInstalledAtAll() {
        let error = #expect(throws: ClusterError.self) { try PostgresBinaries.choose([], existing: 15) }
        #expect(error?.message.contains("(found: none)") == true)
    }

    @Test(
        arguments: [
            ("postgres (PostgreSQL) 16.2\n", 16), ("postgres (PostgreSQL) 17rc1", 17),
            ("postgres (PostgreSQL) devel", nil), ("", nil),
            ("(PostgreSQL) 15", 15), ("postgres (EnterpriseDB) 15.1", nil),
        ] as [(String, Int?)]) func versions(_ text: String, _ version: Int?)
    {
        #expect(PostgresBinaries.majorVersion(text) == version)
    }
}
