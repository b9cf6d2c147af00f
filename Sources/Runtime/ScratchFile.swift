internal import Glibc

/// The reason why a scratch file cannot be created or used.
public struct ScratchFileError: Error, Sendable, CustomStringConvertible {
    /// The operation that failed.
    public let action: String
    public let code: Int32

    /// The system's description of the code.
    public var reason: String { String(cString: strerror(code)) }
    public var description: String { "\(action): \(reason)" }
}

/// A file without a name, which only this process can read and which disappears when the process ends for any reason.
/// Any thread.
public final class ScratchFile: Sendable {
    private let descriptor: Int32
    /// Linux's `__O_TMPFILE`, which its header does not expose to Swift.
    private static let withoutName: Int32 = 0o20_000_000

    /// Creates a file in a directory.
    public init(in directory: String) throws(ScratchFileError) {
        let unnamed = open(directory, Self.withoutName | O_DIRECTORY | O_RDWR | O_CLOEXEC, 0o600)
        if unnamed >= 0 {
            descriptor = unnamed
            return
        }
        // Some file systems do not support files without names: this file loses its name at once.
        var name = Array("\(directory)/pathmirror-XXXXXX".utf8CString)
        let named = mkstemp(&name)
        guard named >= 0 else { throw ScratchFileError(action: "a file can't be created in \(directory)", code: errno) }
        unlink(name)
        _ = fcntl(named, F_SETFD, FD_CLOEXEC)
        descriptor = named
    }

    deinit { close(descriptor) }

    /// Writes all of the bytes.
    ///
    /// - Parameter offset: in bytes from the beginning; the file grows as needed.
    public func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ScratchFileError) {
        var done = 0
        while done < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[done...])
            let count = pwrite(descriptor, rest.baseAddress, rest.count, Int(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw ScratchFileError(action: "a scratch file can't be written", code: count < 0 ? errno : ENOSPC)
            }
            done += count
        }
    }

    /// Fills the buffer.
    ///
    /// - Parameter offset: in bytes from the beginning.
    public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(ScratchFileError) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let count = pread(descriptor, rest.baseAddress, rest.count, Int(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw ScratchFileError(action: "a scratch file can't be read", code: count < 0 ? errno : EIO)
            }
            done += count
        }
    }

    /// Returns all of the file's bytes to the disk.
    public func empty() { ftruncate(descriptor, 0) }
}
