import Glibc

/// A file that is written beside its name and takes it when whole, or standard output.
final class OutputFile {
    private let path: String?
    private let temporary: String
    private let descriptor: Int32

    /// For commands that write one result.
    static let option = OptionSpecification(
        "output", "FILE", "where to write (also -o); default and - standard output", oldNames: ["out"])

    /// - Parameters:
    ///   - path: nil or `-` for standard output.
    ///   - standardOutput: what that is.
    init(_ path: String?, standardOutput: Int32) throws {
        let path = path == "-" ? nil : path
        self.path = path
        guard let path else {
            temporary = ""
            descriptor = standardOutput
            return
        }
        temporary = "\(path).\(getpid()).part"
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
    }

    deinit {
        guard path != nil else { return }
        close(descriptor)
        unlink(temporary)
    }

    func write(_ bytes: [UInt8]) throws {
        guard Console.writeBytes(bytes, to: descriptor) else {
            throw CommandFailure("\(path ?? "standard output") can't be written: \(String(cString: strerror(errno))).")
        }
    }

    /// Gives the file its name. Without this call nothing is left of it.
    func finish() throws {
        guard let path else { return }
        guard fsync(descriptor) == 0, rename(temporary, path) == 0 else {
            throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
    }
}
