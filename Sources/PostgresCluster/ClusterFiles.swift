import Glibc

/// The file operations of a cluster. Every error contains the attempted operation and the reason.
enum ClusterFiles {
    static func fail(_ action: String, _ code: Int32 = errno) -> ClusterError {
        ClusterError(.system, "cannot \(action): \(text(code))")
    }

    static func text(_ code: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            guard let base = buffer.baseAddress, strerror_r(code, base, buffer.count) == 0 else {
                return "error \(code)"
            }
            return String(cString: base)
        }
    }

    /// Creates a folder and its missing parents. The mode applies to the last folder, if it is created here.
    static func createDirectory(_ path: String, mode: mode_t) throws(ClusterError) {
        guard !isDirectory(path) else { return }
        if let parent = parent(of: path), !isDirectory(parent) {
            try createDirectory(parent, mode: 0o755)
        }
        if mkdir(path, mode) != 0 && errno != EEXIST {
            throw fail("create the folder \(path)")
        }
        // The umask reduces mkdir's mode.
        guard chmod(path, mode) == 0 else { throw fail("set the mode of \(path)") }
    }

    static func own(_ path: String, _ user: ServerUser) throws(ClusterError) {
        guard user.isOther else { return }
        guard chown(path, user.userID, user.groupID) == 0 else { throw fail("give \(path) to the user \(user.name)") }
    }

    static func isDirectory(_ path: String) -> Bool {
        guard let status = status(path) else { return false }
        return status.st_mode & S_IFMT == S_IFDIR
    }

    /// Returns the status of the file, or of the target of a symbolic link.
    static func status(_ path: String) -> stat? {
        var status = stat()
        return stat(path, &status) == 0 ? status : nil
    }

    /// Returns the status of the file itself, even if it is a symbolic link.
    static func ownStatus(_ path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }

    static func absolute(_ path: String) throws(ClusterError) -> String {
        guard let resolved = realpath(path, nil) else { throw fail("resolve \(path)") }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    static func parent(of path: String) -> String? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        guard parts.count > 1 else { return path.hasPrefix("/") ? nil : "." }
        return (path.hasPrefix("/") ? "/" : "") + parts.dropLast().joined(separator: "/")
    }

    /// Returns the last `limit` bytes of the file, or nil if it cannot be read.
    static func read(_ path: String, lastBytes limit: Int = 1 << 20) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let size = lseek(descriptor, 0, SEEK_END)
        // Files in /proc have size 0.
        lseek(descriptor, size > limit ? size - limit : 0, SEEK_SET)
        return String(decoding: readAll(descriptor, limit: limit), as: UTF8.self)
    }

    static func readAll(_ descriptor: Int32, limit: Int = .max) -> [UInt8] {
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 * 1024)
        while content.count < limit {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { break }
            content.append(contentsOf: chunk[..<count])
        }
        return content
    }

    /// Writes the whole file and syncs it.
    static func write(_ path: String, _ text: String, mode: mode_t, owner: ServerUser?) throws(ClusterError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else { throw fail("write \(path)") }
        defer { close(descriptor) }
        if let owner, owner.isOther, fchown(descriptor, owner.userID, owner.groupID) != 0 {
            throw fail("give \(path) to the user \(owner.name)")
        }
        var bytes = [UInt8](text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw fail("write \(path)") }
            bytes = bytes.dropFirst(count)
        }
        guard fsync(descriptor) == 0 else { throw fail("sync \(path)") }
    }

    /// Makes renames and new names in a folder durable.
    static func syncDirectory(_ path: String) throws(ClusterError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw fail("open the folder \(path)") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw fail("sync the folder \(path)") }
    }

    /// Returns the names in a folder, or none if it cannot be read.
    static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." {
                names.append(name)
            }
        }
        return names
    }

    /// Removes a file, or a folder with its contents. Does not follow symbolic links, and skips files that it cannot
    /// remove.
    static func removeTree(_ path: String) {
        if let status = ownStatus(path), status.st_mode & S_IFMT == S_IFDIR {
            for name in names(in: path) {
                removeTree(path + "/" + name)
            }
            rmdir(path)
        } else {
            unlink(path)
        }
    }
}
