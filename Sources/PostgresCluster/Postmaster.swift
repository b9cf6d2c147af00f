import Glibc
import Runtime
import Synchronization

/// The server process, a child of this process. Thread-safe.
final class Postmaster: Sendable {
    let processID: pid_t
    /// The exit status, once the process has ended and was waited for.
    private let ended = Mutex<Int32?>(nil)

    init(_ processID: pid_t) {
        self.processID = processID
    }

    /// Whether the process is running.
    var isRunning: Bool { exitStatus == nil }

    /// The exit status, or nil while the process is running.
    var exitStatus: Int32? {
        ended.withLock { ended in
            if ended == nil {
                var status: Int32 = 0
                let result = waitpid(processID, &status, WNOHANG)
                if result == processID {
                    ended = ChildProcess.exitCode(status)
                } else if result < 0 && errno == ECHILD {
                    // Another thread or library has waited for the process, or SIGCHLD is ignored.
                    ended = ProcessTable.isAlive(processID) ? nil : -1
                }
            }
            return ended
        }
    }

    func signal(_ number: Int32) {
        ended.withLock { ended in
            // Once the process has been waited for, its id may belong to another process.
            if ended == nil {
                kill(processID, number)
            }
        }
    }

    /// Returns whether the process has ended within the time.
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

/// A PostgreSQL that outlived the process that started it, and PostgreSQL's lock files. The caller holds the data
/// directory's lock, so the process that started the server has ended.
enum StalePostmaster {
    /// Stops the server, and then removes its files. The server is not reused, because its settings and version may
    /// differ, and the end of a process is only reported for children.
    ///
    /// PostgreSQL refuses to start while the process in the files exists. It cannot detect that the process is a zombie
    /// that is never waited for (process 1 of a container often does not wait), or belongs to another program by now.
    /// Remaining processes of a server hold its shared memory, which prevents a second server.
    static func clear(
        data: String, socketDirectory: String, progress: (String) -> Void
    ) throws(ClusterError) {
        let socket = "\(socketDirectory)/.s.PGSQL.\(ServerConfiguration.port)"
        let files = [data + "/postmaster.pid", socket + ".lock"]
        for process in files.compactMap({ processID(ClusterFiles.read($0)) }) {
            // `unknown` is another user's process, and PostgreSQL runs only as the owner of its data.
            guard ProcessTable.isPostmaster(process, data: data) == .yes else { continue }
            progress("stopping the PostgreSQL (process \(process)) that an earlier pathmirror left running")
            guard stop(process) else {
                throw ClusterError(
                    .start, "PostgreSQL (process \(process)), left by an earlier pathmirror, does not stop: kill it")
            }
        }
        for file in files + [socket] where unlink(file) != 0 && errno != ENOENT {
            throw ClusterFiles.fail("remove \(file)")
        }
    }

    /// Returns the process id in the first line. PostgreSQL writes a negative number in single-user mode.
    static func processID(_ text: String?) -> pid_t? {
        guard let line = text?.split(whereSeparator: \.isNewline).first, let number = pid_t(line) else { return nil }
        return number > 1 ? number : nil
    }

    /// Requests a fast shutdown, then an immediate one, then kills the process. Returns whether it has ended.
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

/// Information from /proc about processes that are not children.
enum ProcessTable {
    /// Whether the process exists and is not a zombie.
    static func isAlive(_ process: pid_t) -> Bool {
        guard process > 0, kill(process, 0) == 0 || errno == EPERM else { return false }
        guard let state = statFields(process)?.first else { return false }
        return state != "Z" && state != "X"
    }

    /// Returns the processes whose parent is `process`.
    static func children(of process: pid_t) -> [pid_t] {
        ClusterFiles.names(in: "/proc").compactMap { pid_t($0) }.filter { candidate in
            guard let fields = statFields(candidate), fields.count > 1 else { return false }
            return pid_t(fields[1]) == process
        }
    }

    enum Match {
        case yes, no
        /// The process belongs to another user, so /proc does not show its folder.
        case unknown
    }

    /// Whether the process is a PostgreSQL server on this data folder. The check uses the server's working directory,
    /// which identifies the folder even if it was renamed since.
    static func isPostmaster(_ process: pid_t, data: String) -> Match {
        guard isAlive(process) else { return .no }
        guard ClusterFiles.read("/proc/\(process)/comm") == "postgres\n" else { return .no }
        guard let itsFolder = ClusterFiles.status("/proc/\(process)/cwd") else { return .unknown }
        guard let folder = ClusterFiles.status(data) else { return .no }
        return itsFolder.st_dev == folder.st_dev && itsFolder.st_ino == folder.st_ino ? .yes : .no
    }

    /// Returns the fields after the program's name: state, parent, …. The name is in parentheses and may contain any
    /// characters.
    private static func statFields(_ process: pid_t) -> [Substring]? {
        guard let line = ClusterFiles.read("/proc/\(process)/stat"), let end = line.lastIndex(of: ")") else {
            return nil
        }
        return line[line.index(after: end)...].split(separator: " ")
    }
}
