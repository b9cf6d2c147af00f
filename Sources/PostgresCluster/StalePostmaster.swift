import Glibc

/// A PostgreSQL that outlived the process that started it, found through its postmaster.pid. The caller holds the
/// data directory's lock, so whoever started it is gone.
enum StalePostmaster {
    /// Stops it, rather than going on with it: its settings and its version may be others, and only a child of ours
    /// tells us when it ends.
    static func clear(data: String, progress: (String) -> Void) throws(ClusterError) {
        let path = data + "/postmaster.pid"
        guard let process = processID(Files.read(path)) else { return }
        switch ProcessTable.isPostmaster(process, data: data) {
        case .yes:
            progress("stopping the PostgreSQL (process \(process)) that an earlier pathmirror left running")
            guard stop(process) else {
                throw ClusterError(
                    .start, "PostgreSQL (process \(process)), left by an earlier pathmirror, does not stop: kill it")
            }
        case .no:
            // The number belongs to another program by now (likely in containers, where numbers are small).
            // PostgreSQL cannot tell that and would refuse to start; its shared memory still guards against a second
            // server.
            if ProcessTable.isAlive(process) {
                unlink(path)
            }
        case .unknown:
            break
        }
    }

    /// The first line; PostgreSQL writes a negative number in single-user mode.
    static func processID(_ text: String?) -> pid_t? {
        guard let line = text?.split(whereSeparator: \.isNewline).first, let number = pid_t(line) else { return nil }
        return number > 1 ? number : nil
    }

    /// Fast shutdown, then immediate, then by force. Returns whether it is gone.
    private static func stop(_ process: pid_t) -> Bool {
        for (signal, waitMs) in [(SIGINT, 30_000), (SIGQUIT, 5_000), (SIGKILL, 2_000)] {
            kill(process, signal)
            for _ in 0..<(waitMs / 10) {
                if !ProcessTable.isAlive(process) {
                    return true
                }
                pause(milliseconds: 10)
            }
        }
        return false
    }
}
