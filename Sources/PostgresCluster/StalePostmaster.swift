import Glibc
import Runtime

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
