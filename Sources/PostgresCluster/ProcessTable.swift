import Glibc

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
