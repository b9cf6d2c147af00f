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
    /// there.
    public static func make(_ path: String) throws(Failure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(path: path, number: errno) }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else { throw Failure(path: path, number: errno) }
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
