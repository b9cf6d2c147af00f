internal import Glibc

/// Files that only their owner may open.
public enum PrivateFile {
    /// The reason why a file or folder could not be created or moved.
    public struct Failure: Error, Equatable, Sendable, CustomStringConvertible {
        public let path: String
        /// The system's error number.
        public let number: Int32

        public var description: String {
            "\(path) could not be created or renamed: \(String(cString: strerror(number))); check the folder's permissions"
        }
    }

    /// Creates a folder (mode 0700) and its missing parents. An existing folder keeps its mode.
    public static func makeFolder(_ path: String) throws(Failure) {
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR { return }
        if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
            try makeFolder(String(path[..<slash]))
        }
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure(path: path, number: errno) }
        // The parent must be synchronized, too: otherwise a power failure could remove the new folder together with durable files in it.
        let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

    /// Creates an empty file (mode 0600) if there is none, and removes other users' permissions from an existing one. Refuses links
    /// and anything except a regular file, because another user may have put it there.
    public static func make(_ path: String) throws(Failure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw Failure(path: path, number: errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Failure(path: path, number: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure(path: path, number: EINVAL) }
        guard fchmod(descriptor, 0o600) == 0 else { throw Failure(path: path, number: errno) }
    }

    /// Throws if the path is a link. Writing to the path would write to the link's target.
    public static func refuseLink(_ path: String) throws(Failure) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else { return }
        throw Failure(path: path, number: ELOOP)
    }

    /// Returns the paths in the same folder that begin with `prefix`, or an empty array if the folder cannot be read.
    public static func siblings(of prefix: String) -> [String] {
        let end = prefix.lastIndex(of: "/").map { prefix.index(after: $0) } ?? prefix.startIndex
        guard let folder = opendir(end == prefix.startIndex ? "." : String(prefix[..<end])) else { return [] }
        defer { closedir(folder) }
        var found: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix(prefix[end...]) { found.append(prefix[..<end] + name) }
        }
        return found
    }

    /// Renames a file. Returns false if it does not exist.
    public static func rename(_ path: String, to newPath: String) throws(Failure) -> Bool {
        if Glibc.rename(path, newPath) == 0 { return true }
        guard errno == ENOENT else { throw Failure(path: path, number: errno) }
        return false
    }

    /// Removes a file. A missing file is not an error.
    public static func remove(_ path: String) { unlink(path) }
}
