import Glibc

/// The paths of a cluster's parts. Everything is below the data directory, with two exceptions imposed by the operating
/// system: a server user that cannot reach the directory, and a path too long for a Unix socket.
struct ClusterPaths: Equatable {
    /// The data directory, absolute and without symbolic links.
    var root: String
    /// The PostgreSQL data folder.
    var data: String
    /// The folder of the Unix socket; mode 0700, owned by the server's user.
    var socketDirectory: String

    var log: String { root + "/postgres.log" }
    /// The folder that contains `data`: the root itself, except for a cluster stored elsewhere.
    var base: String { ClusterFiles.parent(of: data) ?? root }
    var isElsewhere: Bool { base != root }

    private var isSocketInside: Bool { socketDirectory == base + "/run" }

    private static let elsewhere = "/var/lib/pathmirror"
    /// sockaddr_un has 108 bytes for the path, of which the last one is zero.
    private static let socketPathBytesMax = 107

    /// Determines the paths and creates the folders, except for `data` itself.
    init(root: String, user: ServerUser, progress: (String) -> Void) throws(ClusterError) {
        self.root = root
        data = try Self.data(in: root, user, progress)
        socketDirectory = ClusterFiles.parent(of: data).map { $0 + "/run" } ?? root + "/run"
        if !Self.fitsSocket(socketDirectory) {
            socketDirectory = try Self.shortSocketDirectory(root)
        }
        try prepareSocketDirectory(user)
    }

    /// Whether the path of a socket in this folder is short enough, and contains no characters that separate folders in
    /// settings.
    static func fitsSocket(_ directory: String) -> Bool {
        let name = "\(directory)/.s.PGSQL.\(ServerConfiguration.port)"
        return name.utf8.count <= socketPathBytesMax && !directory.contains { ",\"'\\\n".contains($0) }
    }

    private static func data(
        in root: String, _ user: ServerUser, _ progress: (String) -> Void
    ) throws(ClusterError) -> String {
        let path = root + "/pgdata"
        if let status = ClusterFiles.ownStatus(path) {
            guard status.st_mode & S_IFMT == S_IFLNK else {
                try requireReachable(root, user)
                return path
            }
            return try linkedData(path, progress)
        }
        if !user.isOther {
            return path
        }
        if try user.canEnter(root) {
            return path
        }
        return try createElsewhere(root, path, user, progress)
    }

    private static func requireReachable(_ root: String, _ user: ServerUser) throws(ClusterError) {
        guard user.isOther else { return }
        guard try user.canEnter(root) else {
            throw ClusterError(
                .system,
                "the user \(user.name), which runs PostgreSQL, cannot reach the data directory \(root): "
                    + "open the folders above the directory (chmod o+x) or move the directory")
        }
    }

    /// Returns the target of the link. If the target is unfinished or missing, it will be created.
    private static func linkedData(_ path: String, _ progress: (String) -> Void) throws(ClusterError) -> String {
        if let real = try? ClusterFiles.absolute(path) {
            return real
        }
        guard let target = linkTarget(path), target.hasPrefix(elsewhere + "/"),
            let base = ClusterFiles.parent(of: target)
        else {
            throw ClusterError(
                .system,
                "\(path) is a symbolic link to a folder that does not exist: remove the link to begin with an empty cluster"
            )
        }
        if !ClusterFiles.isDirectory(base) {
            progress("the cluster in \(target) no longer exists; a new cluster is created there")
        }
        try ClusterFiles.createDirectory(elsewhere, mode: 0o755)
        try ClusterFiles.createDirectory(base, mode: 0o711)
        return target
    }

    private static func linkTarget(_ path: String) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            guard let base = buffer.baseAddress else { return nil }
            let count = readlink(path, base, buffer.count)
            guard count > 0, count < buffer.count else { return nil }
            return String(decoding: UnsafeRawBufferPointer(start: base, count: count), as: UTF8.self)
        }
    }

    /// Creates a folder that the server's user can reach, and a link to it. Never uses an existing folder, which may be
    /// the cluster of a data directory that was moved.
    private static func createElsewhere(
        _ root: String, _ path: String, _ user: ServerUser, _ progress: (String) -> Void
    ) throws(ClusterError) -> String {
        try ClusterFiles.createDirectory(elsewhere, mode: 0o755)
        let name = elsewhere + "/" + hash(root)
        var base = name
        var number = 1
        while mkdir(base, 0o711) != 0 {
            guard errno == EEXIST else { throw ClusterFiles.fail("create the folder \(base)") }
            number += 1
            base = "\(name)-\(number)"
        }
        guard chmod(base, 0o711) == 0 else { throw ClusterFiles.fail("set the mode of \(base)") }
        let data = base + "/pgdata"
        guard symlink(data, path) == 0 else { throw ClusterFiles.fail("create the link \(path)") }
        progress(
            "the user \(user.name), which runs PostgreSQL, cannot reach \(root): "
                + "the cluster is kept in \(base), linked from \(path)"
        )
        return data
    }

    private static func shortSocketDirectory(_ root: String) throws(ClusterError) -> String {
        let parent = geteuid() == 0 && ClusterFiles.isDirectory("/run") ? "/run" : "/tmp"
        return "\(parent)/pathmirror-\(hash(root))"
    }

    /// Creates the folder, or checks that an existing one belongs to the right user, and closes it to other users.
    /// Below /tmp, any user may have created it.
    private func prepareSocketDirectory(_ user: ServerUser) throws(ClusterError) {
        if mkdir(socketDirectory, 0o700) == 0 {
            try ClusterFiles.own(socketDirectory, user)
        } else if errno != EEXIST {
            throw ClusterFiles.fail("create the folder \(socketDirectory)")
        }
        guard let status = ClusterFiles.ownStatus(socketDirectory), status.st_mode & S_IFMT == S_IFDIR,
            isSocketInside || status.st_uid == user.userID || status.st_uid == geteuid()
        else {
            throw ClusterError(
                .system,
                "\(socketDirectory) is not a folder of the user \(user.name): remove it, or name another data directory"
            )
        }
        try ClusterFiles.own(socketDirectory, user)
        guard chmod(socketDirectory, 0o700) == 0 else { throw ClusterFiles.fail("set the mode of \(socketDirectory)") }
    }

    /// Removes a socket folder outside the data directory, once the server has ended.
    func removeForeignSocketDirectory() {
        if !isSocketInside {
            rmdir(socketDirectory)
        }
    }

    /// Returns the FNV-1a hash, 64 bits. Distinguishes paths, without cryptographic strength.
    static func hash(_ text: String) -> String {
        let value = text.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// Allows one process per data directory: a flock(2) on a file in it, which ends with the process, however it dies.
final class DirectoryLock: Sendable {
    private let descriptor: Int32

    /// Acquires the lock.
    ///
    /// - Throws: `inUse` with the holder's process id.
    init(_ directory: String) throws(ClusterError) {
        let path = directory + "/lock"
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw ClusterFiles.fail("open \(path)") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            let holder = String(decoding: ClusterFiles.readAll(descriptor, limit: 32), as: UTF8.self)
                .split(whereSeparator: \.isWhitespace).first.flatMap { Int32($0) }
            // `deinit` closes the file.
            guard code == EWOULDBLOCK else { throw ClusterFiles.fail("lock \(path)", code) }
            let process = holder.map { " (process \($0))" } ?? ""
            throw ClusterError(
                .inUse(processID: holder),
                "the data directory \(directory) is in use by another pathmirror\(process): "
                    + "stop that process or name another directory"
            )
        }
        let text = Array("\(getpid())\n".utf8)
        // The process id is only for messages; the lock itself is decisive.
        ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.count, 0)
    }

    deinit {
        // Closing alone would leave the lock to a child process that is being started and has not closed the descriptor
        // yet.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
