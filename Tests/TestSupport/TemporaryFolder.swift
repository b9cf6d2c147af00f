import Glibc
import Synchronization

/// Names and removes folders that tests make.
public enum TemporaryFolder {
    private static let count = Atomic<Int>(0)

    /// Where folders are made: TMPDIR, where it leaves room for sockets' paths, else `/tmp`.
    public static let base: String = {
        guard let path = getenv("TMPDIR").map({ String(cString: $0) }), path.hasPrefix("/"), path.utf8.count <= 40,
            access(path, W_OK) == 0
        else { return "/tmp" }
        return path
    }()

    /// A path of this process's own; nothing is there yet. Short, as sockets' paths have to be.
    public static func path(_ name: String) -> String {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return "\(base)/pathmirror-\(name)-\(getpid())-\(number)"
    }

    /// Makes a folder that only this user may look into.
    public static func make(_ path: String) throws {
        guard mkdir(path, 0o700) == 0 else { throw Failure(path: path, code: errno) }
    }

    /// A folder that can't be made.
    public struct Failure: Error {
        public let path: String
        public let code: Int32
    }

    /// Removes a folder (or file) and everything in it; follows no links.
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

    /// The lines of a small file that are not empty.
    static func lines(of path: String) -> [Substring] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: "\n")
    }

    /// What is in a folder.
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
