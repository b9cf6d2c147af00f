import Glibc
import Synchronization

/// Names and removes temporary folders of tests.
public enum TemporaryFolder {
    private static let count = Atomic<Int>(0)

    /// The parent folder: TMPDIR if it is short enough for the paths of sockets, otherwise `/tmp`.
    public static let base: String = {
        guard let path = getenv("TMPDIR").map({ String(cString: $0) }), path.hasPrefix("/"), path.utf8.count <= 40,
            access(path, W_OK) == 0
        else { return "/tmp" }
        return path
    }()

    /// Returns an unused path of this process, short enough for sockets.
    public static func path(_ name: String) -> String {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return "\(base)/pathmirror-\(name)-\(getpid())-\(number)"
    }

    /// Creates a folder that only this user can access.
    public static func make(_ path: String) throws {
        guard mkdir(path, 0o700) == 0 else { throw Failure(path: path, code: errno) }
    }

    /// A failure to create a folder.
    public struct Failure: Error {
        public let path: String
        public let code: Int32
    }

    /// Removes a folder or file with its contents. Does not follow links.
    public static func remove(_ path: String) {
        var information = stat()
        guard lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFDIR else {
            unlink(path)
            return
        }
        for name in names(in: path) { remove(path + "/" + name) }
        rmdir(path)
    }

    static func firstLine(of path: String) -> String? { lines(of: path).first.map(String.init) }

    /// Returns the nonempty lines of a small file.
    static func lines(of path: String) -> [Substring] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: "\n")
    }

    /// Returns the names of a folder's entries.
    public static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}
