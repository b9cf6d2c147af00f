import Glibc

/// Reads a file, or standard input for `-`, piece by piece.
final class FileReader {
    let path: String
    /// The file's size, or nil for what has none.
    let byteCount: Int?
    private let descriptor: Int32
    private let isOpened: Bool
    private(set) var bytesRead = 0

    /// - Parameter standardInput: what `-` names.
    init(_ path: String, standardInput: Int32 = STDIN_FILENO) throws {
        self.path = path
        isOpened = path != "-"
        guard isOpened else {
            descriptor = standardInput
            byteCount = nil
            return
        }
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure("\(path) can't be read: \(String(cString: strerror(errno))).")
        }
        var status = stat()
        let isRegular = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        byteCount = isRegular ? Int(status.st_size) : nil
    }

    deinit {
        if isOpened { close(descriptor) }
    }

    /// The next piece, or nil at the end.
    func next(upTo size: Int = 256 * 1024) throws -> [UInt8]? {
        var failure: Int32 = 0
        let piece = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            var got = Glibc.read(descriptor, buffer.baseAddress, size)
            while got < 0, errno == EINTR { got = Glibc.read(descriptor, buffer.baseAddress, size) }
            if got < 0 { failure = errno }
            count = max(0, got)
        }
        guard failure == 0 else {
            throw CommandFailure("\(path) can't be read: \(String(cString: strerror(failure))).")
        }
        bytesRead += piece.count
        return piece.isEmpty ? nil : piece
    }
}
