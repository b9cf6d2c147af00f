import Glibc
import Runtime
import Synchronization

/// The server process, our child. Any thread.
final class Postmaster: Sendable {
    let processID: pid_t
    /// The exit status, once it has ended and was waited for.
    private let ended = Mutex<Int32?>(nil)

    init(_ processID: pid_t) {
        self.processID = processID
    }

    /// Whether it is still there.
    var isRunning: Bool { exitStatus == nil }

    /// Nil while it runs.
    var exitStatus: Int32? {
        ended.withLock { ended in
            if ended == nil {
                var status: Int32 = 0
                let result = waitpid(processID, &status, WNOHANG)
                if result == processID {
                    ended = ChildProcess.exitCode(status)
                } else if result < 0 && errno == ECHILD {
                    // Somebody else waited for it, or SIGCHLD is ignored.
                    ended = ProcessTable.isAlive(processID) ? nil : -1
                }
            }
            return ended
        }
    }

    func signal(_ number: Int32) {
        ended.withLock { ended in
            // Once it has been waited for, the number may belong to anybody.
            if ended == nil {
                kill(processID, number)
            }
        }
    }

    /// Returns whether it has ended within the time.
    func waitForExit(timeoutMilliseconds: Milliseconds) -> Bool {
        var waitedMilliseconds: Milliseconds = 0
        while isRunning {
            guard waitedMilliseconds < timeoutMilliseconds else { return false }
            pause(milliseconds: 5)
            waitedMilliseconds += 5
        }
        return true
    }
}

/// A PostgreSQL that outlived the process that started it, and the files by which PostgreSQL says that it runs. The
/// caller holds the data directory's lock, so whoever started it is gone.
enum StalePostmaster {
    /// Stops it, rather than going on with it: its settings and its version may be others, and only a child of ours
    /// tells us when it ends. Then removes its files.
    ///
    /// PostgreSQL would refuse to start while a process with the number in them exists, and cannot tell when that is a
    /// zombie that nobody waits for (process 1 of a container often does not) or belongs to another program by now.
    /// What is left of a server still holds its shared memory, which guards against a second one.
    static func clear(
        data: String, socketDirectory: String, progress: (String) -> Void
    ) throws(ClusterError) {
        let socket = "\(socketDirectory)/.s.PGSQL.\(ServerConfiguration.port)"
        let files = [data + "/postmaster.pid", socket + ".lock"]
        for process in files.compactMap({ processID(Files.read($0)) }) {
            // `unknown` is another user's process, and PostgreSQL runs as the owner of its data only.
            guard ProcessTable.isPostmaster(process, data: data) == .yes else { continue }
            progress("stopping the PostgreSQL (process \(process)) that an earlier pathmirror left running")
            guard stop(process) else {
                throw ClusterError(
                    .start, "PostgreSQL (process \(process)), left by an earlier pathmirror, does not stop: kill it")
            }
        }
        for file in files + [socket] where unlink(file) != 0 && errno != ENOENT {
            throw Files.fail("remove \(file)")
        }
    }

    /// The first line; PostgreSQL writes a negative number in single-user mode.
    static func processID(_ text: String?) -> pid_t? {
        guard let line = text?.split(whereSeparator: \.isNewline).first, let number = pid_t(line) else { return nil }
        return number > 1 ? number : nil
    }

    /// Fast shutdown, then immediate, then by force. Returns whether it is gone.
    private static func stop(_ process: pid_t) -> Bool {
        for (signal, waitMilliseconds) in [(SIGINT, 30_000), (SIGQUIT, 5_000), (SIGKILL, 2_000)] {
            kill(process, signal)
            for _ in 0..<(waitMilliseconds / 10) {
                if !ProcessTable.isAlive(process) {
                    return true
                }
                pause(milliseconds: 10)
            }
        }
        return false
    }
}

/// What /proc says about processes that are not our children.
enum ProcessTable {
    /// Whether the process exists and is not just a zombie that nobody has waited for.
    static func isAlive(_ process: pid_t) -> Bool {
        guard process > 0, kill(process, 0) == 0 || errno == EPERM else { return false }
        guard let state = statFields(process)?.first else { return false }
        return state != "Z" && state != "X"
    }

    /// The processes whose parent is `process`.
    static func children(of process: pid_t) -> [pid_t] {
        Files.names(in: "/proc").compactMap { pid_t($0) }.filter { candidate in
            guard let fields = statFields(candidate), fields.count > 1 else { return false }
            return pid_t(fields[1]) == process
        }
    }

    enum Match {
        case yes, no
        /// /proc does not tell: another user's process.
        case unknown
    }

    /// Whether the process is a PostgreSQL server on this data folder. It works in that folder, which tells it even
    /// if the folder was renamed since.
    static func isPostmaster(_ process: pid_t, data: String) -> Match {
        guard isAlive(process) else { return .no }
        guard Files.read("/proc/\(process)/comm") == "postgres\n" else { return .no }
        guard let itsFolder = Files.status("/proc/\(process)/cwd") else { return .unknown }
        guard let folder = Files.status(data) else { return .no }
        return itsFolder.st_dev == folder.st_dev && itsFolder.st_ino == folder.st_ino ? .yes : .no
    }

    /// State, parent, … : what follows the program's name, which is in parentheses and may hold anything.
    private static func statFields(_ process: pid_t) -> [Substring]? {
        guard let line = Files.read("/proc/\(process)/stat"), let end = line.lastIndex(of: ")") else { return nil }
        return line[line.index(after: end)...].split(separator: " ")
    }
}
