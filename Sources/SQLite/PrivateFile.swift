internal import Glibc

/// Files that nobody but their owner may open.
public enum PrivateFile {
    /// Why a file or folder could not be made or moved.
    public struct Failure: Error, Equatable, Sendable, CustomStringConvertible {
        public let path: String
        /// The system's number of the error.
        public let number: Int32

        public var description: String {
            "\(path) could not be made or moved: \(String(cString: strerror(number))); check the folder's permissions"
        }
    }

    /// Makes a folder (mode 0700) and those above it where they are missing. One that is there keeps its mode.
    public static func makeFolder(_ path: String) throws(Failure) {
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR { return }
        if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
            try makeFolder(String(path[..<slash]))
        }
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure(path: path, number: errno) }
        // A file that is safe is of no use in a folder that a power cut takes away.
        let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

    /// Makes an empty file (mode 0600) where there is none, and takes everybody else's permissions from one that is
    /// there. A link is not followed, and what is no plain file is refused: somebody else may have put it there.
    public static func make(_ path: String) throws(Failure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw Failure(path: path, number: errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Failure(path: path, number: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure(path: path, number: EINVAL) }
        guard fchmod(descriptor, 0o600) == 0 else { throw Failure(path: path, number: errno) }
    }

    /// Refuses a link: whoever opens the path would write to what it leads to.
    public static func refuseLink(_ path: String) throws(Failure) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else { return }
        throw Failure(path: path, number: ELOOP)
    }

    /// The paths that begin like this one's, in its folder. Empty where the folder can't be read.
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

    /// Gives a file another name; false where there is none.
    public static func rename(_ path: String, to newPath: String) throws(Failure) -> Bool {
        if Glibc.rename(path, newPath) == 0 { return true }
        guard errno == ENOENT else { throw Failure(path: path, number: errno) }
        return false
    }

    /// Removes a file; one that is not there is no error.
    public static func remove(_ path: String) { unlink(path) }
}
