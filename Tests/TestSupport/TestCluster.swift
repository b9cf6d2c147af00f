import Glibc
import Postgres
public import PostgresCluster
import Synchronization
import Testing

/// A private PostgreSQL server for a test program, started at first use and removed when the program ends.
public enum TestCluster {
    private static let prefix = "pathmirror-tests-"
    private static let directory = "\(TemporaryFolder.base)/\(prefix)\(getpid())"
    private static let started: Result<PostgresCluster, ClusterError> = start()

    /// The server. It survives a crash of PostgreSQL but not of the machine, because fsync is off.
    ///
    /// Cancels the test if `PATHMIRROR_TEST_POSTGRES` is `none`, as in `make check`.
    public static func cluster() throws -> PostgresCluster {
        try cancelWithoutServers()
        return try started.get()
    }

    /// Cancels the test if it may not start a server.
    static func cancelWithoutServers() throws {
        if let choice = getenv("PATHMIRROR_TEST_POSTGRES"), String(cString: choice) == "none" {
            try Test.cancel("needs PostgreSQL, and PATHMIRROR_TEST_POSTGRES is none")
        }
    }

    /// Opens a connection to the cluster's own database, for creating and dropping others.
    static func administrator() throws -> PostgresConnection { try PostgresConnection(cluster().url) }

    /// The path of the server's socket, for proxies between the server and its clients.
    public static func socketPath() throws -> String {
        let directories = try administrator().execute("show unix_socket_directories").string(0, 0)
        return directories.filter { $0 != "\"" } + "/.s.PGSQL.5432"
    }

    private static func start() -> Result<PostgresCluster, ClusterError> {
        removeLeftovers()
        var settings = ClusterSettings(dataDirectory: directory)
        settings.durability = .testFast
        settings.settings = [
            "max_connections": "300", "shared_buffers": "64MB", "autovacuum_naptime": "5min", "max_wal_size": "256MB",
        ]
        do throws(ClusterError) {
            let cluster = try PostgresCluster.start(settings)
            atexit { TestCluster.remove() }
            return .success(cluster)
        } catch {
            return .failure(error)
        }
    }

    /// Stops and removes servers left by killed test programs.
    private static func removeLeftovers() {
        for name in TemporaryFolder.names(in: TemporaryFolder.base) where name.hasPrefix(prefix) {
            guard let owner = pid_t(name.dropFirst(prefix.count)), kill(owner, 0) != 0, errno == ESRCH else { continue }
            let directory = TemporaryFolder.base + "/" + name
            if let server = TemporaryFolder.firstLine(of: directory + "/pgdata/postmaster.pid").flatMap({ pid_t($0) }),
                TemporaryFolder.firstLine(of: "/proc/\(server)/cmdline")?.contains(directory) == true
            {
                kill(server, SIGQUIT)
                _ = eventually(seconds: 5) { kill(server, 0) != 0 }
            }
            TemporaryFolder.remove(directory)
        }
    }

    private static func remove() {
        if case .success(let cluster) = started { cluster.stop(.immediate) }
        TemporaryFolder.remove(directory)
    }
}
