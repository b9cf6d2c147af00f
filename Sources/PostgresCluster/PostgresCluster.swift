import Glibc
public import Postgres
public import Runtime
import Synchronization

/// A private PostgreSQL: created at the first start, reached through a Unix socket by one user (and root) only.
///
/// Started as root, it runs as an unprivileged user. It has its own session, so that Ctrl-C does not reach it, and
/// outlives this process if that is killed: the next start in the same data directory finds and stops it. The methods
/// block their thread.
///
///     start
///       |  lock the data directory (`DirectoryLock`)          held by another process: `inUse`
///       |  find the server's programs (`PostgresBinaries`)    none is suitable: `notInstalled`
///       |
///       +-- no cluster ---> ClusterCreation: initdb in a temporary folder, then rename
///       +-- a cluster ----> StalePostmaster: stop a server that an earlier process left
///       |
///       |  write postgresql.conf (`ServerConfiguration`)
///       |  spawn the server, wait until it answers, create the database
///       v
///     running
///       |  stop(.fast): SIGINT, wait `timeoutMilliseconds`; stop(.immediate), or still running: SIGQUIT, wait 5 s
///       |  still running: SIGKILL
///       v
///     stopped: the lock of the data directory is released
///
/// A server that ends by itself is not restarted: `isRunning` becomes false. This type has one server and no failover;
/// `ServerFence` in LogStore has the state of failovers.
public final class PostgresCluster: Sendable {
    static let userName = "pathmirror"
    static let databaseName = "pathmirror"

    public enum StopMode: Sendable {
        /// Ends sessions, and writes a checkpoint.
        case fast
        /// Stops at once; the next start recovers.
        case immediate
    }

    /// The connection settings: superuser `pathmirror`, database `pathmirror`.
    public let url: PostgresURL
    /// A shell command that opens the database in psql.
    public let psqlCommand: String
    /// PostgreSQL's log file.
    public let logPath: String
    public let majorVersion: Int
    private let postmaster: Postmaster
    private let paths: ClusterPaths
    private let locks: Mutex<[DirectoryLock]>

    init(_ postmaster: Postmaster, _ paths: ClusterPaths, _ locks: [DirectoryLock], majorVersion: Int) {
        self.postmaster = postmaster
        self.paths = paths
        self.locks = Mutex(locks)
        self.majorVersion = majorVersion
        url = Self.url(paths, database: Self.databaseName)
        psqlCommand = "psql -h \(shellQuoted(paths.socketDirectory)) -U \(Self.userName) \(Self.databaseName)"
        logPath = paths.log
    }

    deinit {
        // The server was not stopped: request a shutdown without waiting. The next start waits if necessary.
        postmaster.signal(SIGINT)
    }

    /// The server's process id.
    public var postmasterPID: Int32 { postmaster.processID }

    /// Whether the server process exists. Becomes false if it crashes or is stopped from outside.
    public var isRunning: Bool { postmaster.isRunning }

    /// Stops the server and waits for it, after `timeoutMilliseconds` by force. Then releases the data directory.
    /// May be called twice.
    public func stop(_ mode: StopMode = .fast, timeoutMilliseconds: Milliseconds = 30_000) {
        if mode == .fast {
            postmaster.signal(SIGINT)
        }
        if mode == .immediate || !postmaster.waitForExit(timeoutMilliseconds: timeoutMilliseconds) {
            postmaster.signal(SIGQUIT)
        }
        if !postmaster.waitForExit(timeoutMilliseconds: 5_000) {
            killHard()
        }
        release()
    }

    /// Kills the server and its backends as a crash would (SIGKILL), and releases the data directory. For tests.
    public func killHard() {
        // The server is stopped first, so that it starts no new backends.
        postmaster.signal(SIGSTOP)
        let children = postmaster.isRunning ? ProcessTable.children(of: postmaster.processID) : []
        for child in children {
            kill(child, SIGKILL)
        }
        postmaster.signal(SIGKILL)
        _ = postmaster.waitForExit(timeoutMilliseconds: 5_000)
        for child in children {
            while ProcessTable.isAlive(child) {
                pause(milliseconds: 1)
            }
        }
        release()
    }

    private func release() {
        locks.withLock { locks in
            if !locks.isEmpty {
                paths.removeForeignSocketDirectory()
            }
            locks.removeAll()
        }
    }

    static func url(_ paths: ClusterPaths, database: String) -> PostgresURL {
        PostgresURL(
            socketDirectory: paths.socketDirectory, port: ServerConfiguration.port, user: userName, database: database)
    }
}

/// Returns the text as one word of a POSIX shell.
public func shellQuoted(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"),
            UInt8(ascii: "_"):
            true
        default: false
        }
    }
    guard !isPlain || text.isEmpty else { return text }
    return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
}

extension PostgresCluster {
    /// Returns the URL of the running cluster of a data directory that another process has started, or nil if none is
    /// running.
    public static func runningURL(dataDirectory: String) -> PostgresURL? {
        // The server writes: process id, data directory, start time, port, socket directory, …
        let data = dataDirectory + "/pgdata"
        guard let text = ClusterFiles.read(data + "/postmaster.pid") else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 4, let process = pid_t(lines[0]),
            ProcessTable.isPostmaster(process, data: data) != .no, let port = Int(lines[3])
        else { return nil }
        return PostgresURL(
            socketDirectory: String(lines[4]), port: port, user: userName, database: databaseName)
    }
}

/// The settings for starting a private PostgreSQL.
public struct ClusterSettings: Sendable {
    public enum Durability: Sendable {
        /// A commit survives a crash of the machine.
        case full
        /// A commit survives a crash of PostgreSQL, but not of the machine: fsync is off. For tests.
        case testFast
    }

    /// The folder of the cluster, created if it doesn't exist. A relative path is resolved against the current
    /// directory.
    public var dataDirectory: String
    /// Default: `full`.
    public var durability = Durability.full
    /// Additional settings for postgresql.conf, which override the defaults of this module. `ALTER SYSTEM` overrides
    /// both.
    public var settings: [String: String] = [:]
    /// The maximum time until PostgreSQL answers, including recovery after a crash.
    public var startTimeoutMilliseconds: Milliseconds = 120_000
    /// Receives messages about slow steps and notable events, one sentence each. Called on the thread that calls
    /// `start`.
    public var progress: (@Sendable (String) -> Void)?

    public init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }
}

/// The reason why a private PostgreSQL could not be started, as one sentence with advice.
public struct ClusterError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// There is no suitable PostgreSQL on this machine.
        case notInstalled
        /// Another live process uses the data directory.
        case inUse(processID: Int32?)
        /// The operating system denied an operation, for example on a folder.
        case system
        /// The cluster could not be created.
        case creation
        /// PostgreSQL ended instead of starting, or did not answer in time.
        case start
    }

    public var kind: Kind
    public var message: String

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { message }
}
