import Glibc
public import Postgres
public import Runtime
import Synchronization

/// A private PostgreSQL: created at the first start, reached through a Unix socket by one user (and root) only.
///
/// Started as root it runs as an unprivileged user. It has a session of its own, so that Ctrl-C does not reach it,
/// and outlives this process if that is killed: the next start in the same data directory finds and stops it. The
/// methods block their thread.
public final class PostgresCluster: Sendable {
    static let userName = "pathmirror"
    static let databaseName = "pathmirror"

    public enum StopMode: Sendable {
        /// Ends sessions, writes a checkpoint.
        case fast
        /// Stops at once; the next start recovers.
        case immediate
    }

    /// How to connect: superuser `pathmirror`, database `pathmirror`.
    public let url: PostgresURL
    /// What a person types to look into the database.
    public let psqlCommand: String
    /// PostgreSQL's log file.
    public let logPath: String
    /// The PostgreSQL major version.
    public let majorVersion: Int
    private let postmaster: Postmaster
    private let place: ClusterPlace
    private let locks: Mutex<[DirectoryLock]>

    init(_ postmaster: Postmaster, _ place: ClusterPlace, _ locks: [DirectoryLock], majorVersion: Int) {
        self.postmaster = postmaster
        self.place = place
        self.locks = Mutex(locks)
        self.majorVersion = majorVersion
        url = Self.url(place, database: Self.databaseName)
        psqlCommand = "psql -h \(shellQuoted(place.socketDirectory)) -U \(Self.userName) \(Self.databaseName)"
        logPath = place.log
    }

    deinit {
        // Not stopped: ask it to, without waiting. The next start waits if need be.
        postmaster.signal(SIGINT)
    }

    /// The server's process id.
    public var postmasterPID: Int32 { postmaster.processID }

    /// Whether the server process is there. Goes to false if it crashes or somebody stops it.
    public var isRunning: Bool { postmaster.isRunning }

    /// Stops the server and waits for it: after `timeoutMilliseconds` by force. Then lets go of the data directory. May be
    /// called twice.
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

    /// Kills the server and its backends as a crash would (SIGKILL), and lets go of the data directory. For tests.
    public func killHard() {
        // Stopped first, so that it starts no new ones.
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
                place.removeForeignSocketDirectory()
            }
            locks.removeAll()
        }
    }

    static func url(_ place: ClusterPlace, database: String) -> PostgresURL {
        PostgresURL(
            socketDirectory: place.socketDirectory, port: ServerConfiguration.port, user: userName, database: database)
    }
}

/// `text` as one word of a POSIX shell.
func shellQuoted(_ text: String) -> String {
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
