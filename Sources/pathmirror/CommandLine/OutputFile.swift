import Glibc

/// A file that is written beside its name and takes it when whole, or standard output.
///
/// A link stays, and what it names is replaced; devices and pipes are written to as they are.
final class OutputFile {
    private let path: String?
    private let temporary: String?
    private let destination: String
    private let descriptor: Int32

    /// For commands that write one result.
    static let option = OptionSpecification(
        "output", "FILE", "where to write (also -o); default and - standard output")

    /// - Parameters:
    ///   - path: nil or `-` for standard output.
    ///   - standardOutput: what that is.
    init(_ path: String?, standardOutput: Int32) throws {
        let path = path == "-" ? nil : path
        self.path = path
        guard let path else {
            (temporary, destination) = (nil, "")
            descriptor = standardOutput
            return
        }
        let place = FilePlace(path)
        destination = place.path
        temporary = place.isReplaceable ? "\(place.path).\(getpid()).part" : nil
        descriptor = open(
            temporary ?? destination, O_WRONLY | O_TRUNC | O_CLOEXEC | (temporary == nil ? 0 : O_CREAT),
            place.mode ?? 0o644)
        guard descriptor >= 0 else { throw Self.failure(path) }
        // The umask has no say where a file is replaced.
        if temporary != nil, let mode = place.mode { fchmod(descriptor, mode) }
    }

    deinit {
        guard path != nil else { return }
        close(descriptor)
        if let temporary { unlink(temporary) }
    }

    func write(_ bytes: [UInt8]) throws {
        guard Console.writeBytes(bytes, to: descriptor) else { throw Self.failure(path) }
    }

    /// Gives the file its name. Without this call nothing is left of it.
    func finish() throws {
        guard let path, let temporary else { return }
        guard fsync(descriptor) == 0, rename(temporary, destination) == 0 else { throw Self.failure(path) }
    }

    private static func failure(_ path: String?) -> CommandFailure {
        CommandFailure("\(path ?? "standard output") can't be written: \(String(cString: strerror(errno))).")
    }
}

/// What stands at a path where something is to be written.
struct FilePlace {
    /// The path, or what a link there names in the end.
    let path: String
    /// Whether another file may take its name. A device or a pipe would be lost for everybody who uses it.
    let isReplaceable: Bool
    /// Who may read and write what is there; nil where nothing is.
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
