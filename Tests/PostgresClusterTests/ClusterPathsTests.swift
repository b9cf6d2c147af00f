import Glibc
import Postgres
import Testing

@testable import PostgresCluster

/// Checks that every data directory works or is refused with one sentence.
@Suite(.timeLimit(.minutes(20))) struct ClusterPathsTests {
    @Test(arguments: [
        ("long", String(repeating: "long-name/", count: 12) + "end"),
        ("odd", "it's a \"path\", with spaces"),
        ("spaces", "two words"),
    ])
    func longAndOddPaths(name: String, below: String) throws {
        let folder = ClusterFolder(name)
        let inner = folder.path + "/" + below
        let cluster = try folder.start { $0.dataDirectory = inner }
        #expect(try cluster.value("SELECT 'up'") == "up")
        let socket = try cluster.value("SHOW unix_socket_directories")
        let isInside = socket.contains(inner)
        #expect(isInside == (name == "spaces"))
        cluster.stop()
        #expect(isInside || ClusterFiles.status(socket.filter { $0 != "\"" }) == nil)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, whose folders others cannot enter"))
    func whatTheServersUserCannotReachIsKeptElsewhere() throws {
        let closed = "/tmp/pathmirror-cluster-tests-\(getpid())-closed"
        try ClusterFiles.createDirectory(closed, mode: 0o700)
        defer { ClusterFiles.removeTree(closed) }
        let folder = ClusterFolder("elsewhere", parent: closed)
        let first = try folder.start()
        #expect(try first.value("SHOW data_directory").hasPrefix("/var/lib/pathmirror/"))
        #expect(folder.progress.contains { $0.contains("cannot reach") && $0.contains("/var/lib/pathmirror/") })
        try PostgresConnection(first.url).executeScript("CREATE TABLE kept AS SELECT 'here' AS t")
        // A second link to the same cluster does not start a second server.
        let twin = closed + "/twin"
        try ClusterFiles.createDirectory(twin, mode: 0o700)
        symlink(try ClusterFiles.absolute(folder.path + "/pgdata"), twin + "/pgdata")
        let error = #expect(throws: ClusterError.self) {
            try PostgresCluster.start(ClusterSettings(dataDirectory: twin))
        }
        #expect(error?.kind == .inUse(processID: getpid()))
        first.stop()
        #expect(try folder.start().value("SELECT t FROM kept") == "here")
    }

    @Test(.enabled(if: geteuid() == 0, "needs root to start as another user"))
    func runsAsTheOwnerOfTheCluster() throws {
        let folder = ClusterFolder("owner")
        try folder.start().stop()
        let other: uid_t = 54321
        func give(_ path: String) {
            for name in ClusterFiles.names(in: path) { give(path + "/" + name) }
            lchown(path, other, other)
        }
        give(folder.path + "/pgdata")
        let cluster = try folder.start()
        #expect(try #require(ClusterFiles.status("/proc/\(cluster.postmasterPID)")).st_uid == other)
        #expect(try cluster.value("SELECT 'up'") == "up")
    }

    @Test func aFileInTheWayIsAnError() throws {
        let folder = ClusterFolder("file")
        try ClusterFiles.write(folder.path, "", mode: 0o600, owner: nil)
        let error = #expect(throws: ClusterError.self) { try folder.start() }
        #expect(error?.kind == .system)
        #expect(error?.message.contains(folder.path) == true)
    }
}
