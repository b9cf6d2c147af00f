import Glibc

/// One process a data directory: a flock(2) on a file in it, which ends with the process however that dies.
final class DirectoryLock: Sendable {
    private let descriptor: Int32

    /// - Throws: `inUse` with the holder's process id.
    init(_ directory: String) throws(ClusterError) {
        let path = directory + "/lock"
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Files.fail("open \(path)") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            let holder = String(decoding: Files.readAll(descriptor, limit: 32), as: UTF8.self)
                .split(whereSeparator: \.isWhitespace).first.flatMap { Int32($0) }
            // `deinit` closes the file.
            guard code == EWOULDBLOCK else { throw Files.fail("lock \(path)", code) }
            let who = holder.map { " (process \($0))" } ?? ""
            throw ClusterError(
                .inUse(processID: holder),
                "the data directory \(directory) is in use by another pathmirror\(who): "
                    + "stop that one or name another directory"
            )
        }
        let text = Array("\(getpid())\n".utf8)
        // The number is for messages only: the lock itself is what counts.
        ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.count, 0)
    }

    deinit {
        // Closing alone would leave it to a child that is just being started, and has not let go of it yet.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
