import Glibc

/// A file that is written under a temporary name and renamed once complete, or standard output.
///
/// If the path is a symbolic link, its target is replaced. Devices and pipes are written to directly.
final class OutputFile {
    private let path: String?
    private let temporary: String?
    private let destination: String
    private let descriptor: Int32

    /// The option for commands that write one result.
    static let option = OptionSpecification(
        "output", "FILE", "where to write (also -o); default and - standard output")

    /// - Parameters:
    ///   - path: nil or `-` for standard output.
    ///   - standardOutput: the descriptor of standard output.
    init(_ path: String?, standardOutput: Int32) throws {
        let path = path == "-" ? nil : path
        self.path = path
        guard let path else {
            (temporary, destination) = (nil, "")
            descriptor = standardOutput
            return
        }
        let target = FileTarget(path)
        destination = target.path
        temporary = target.isReplaceable ? "\(target.path).\(getpid()).part" : nil
        descriptor = open(
            temporary ?? destination, O_WRONLY | O_TRUNC | O_CLOEXEC | (temporary == nil ? 0 : O_CREAT),
            target.mode ?? 0o644)
        guard descriptor >= 0 else { throw Self.failure(path) }
        // A replaced file keeps its mode, whatever the umask.
        if temporary != nil, let mode = target.mode { fchmod(descriptor, mode) }
    }

    deinit {
        guard path != nil else { return }
        close(descriptor)
        if let temporary { unlink(temporary) }
    }

    func write(_ bytes: [UInt8]) throws {
        guard Console.writeBytes(bytes, to: descriptor) else { throw Self.failure(path) }
    }

    /// Renames the complete file. Without this call the file is removed.
    func finish() throws {
        guard let path, let temporary else { return }
        guard fsync(descriptor) == 0, rename(temporary, destination) == 0 else { throw Self.failure(path) }
    }

    private static func failure(_ path: String?) -> CommandFailure {
        CommandFailure("\(path ?? "standard output") can't be written: \(String(cString: strerror(errno))).")
    }
}

/// The state of a path to which a file will be written.
struct FileTarget {
    /// The path, or the final target of a symbolic link.
    let path: String
    /// Whether a new file may replace this one. Replacing a device or a pipe would break it for all its users.
    let isReplaceable: Bool
    /// The mode of the present file; nil if there is none.
    let mode: mode_t?

    init(_ path: String) {
        var resolved = path
        if let real = realpath(path, nil) {
            resolved = String(cString: real)
            free(real)
        }
        var status = stat()
        let isThere = stat(resolved, &status) == 0
        let kind = status.st_mode & S_IFMT
        self.path = resolved
        isReplaceable = !isThere || kind == S_IFREG || kind == S_IFDIR
        mode = isThere && kind == S_IFREG ? status.st_mode & 0o777 : nil
    }
}
