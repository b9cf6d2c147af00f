import Glibc
import Synchronization

/// Reads a file, or standard input for `-`, piece by piece. Any thread, one at a time.
final class FileReader: Sendable {
    let path: String
    /// The file's size, or nil for what has none.
    let byteCount: Int?
    private let descriptor: Int32
    private let isOpened: Bool
    private let interruption: Interruption?
    private let bytesSoFar = Atomic(0)

    var bytesRead: Int { bytesSoFar.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - standardInput: what `-` names.
    ///   - interruption: what may end the wait for more of it.
    init(_ path: String, standardInput: Int32 = STDIN_FILENO, interruption: Interruption? = nil) throws {
        self.path = path
        self.interruption = interruption
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
    ///
    /// - Parameter isWanted: asked every so often while nothing comes; nil is the answer where nobody wants it any more.
    func next(upTo size: Int = 256 * 1024, isWanted: () -> Bool = { true }) throws -> [UInt8]? {
        guard try hasMore(isWanted) else { return nil }
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
        bytesSoFar.add(piece.count, ordering: .relaxed)
        return piece.isEmpty ? nil : piece
    }

    /// Waits until there is something to read, or the end; whoever sends it may take their time.
    private func hasMore(_ isWanted: () -> Bool) throws(Interrupted) -> Bool {
        guard let interruption, byteCount == nil else { return isWanted() }
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        repeat {
            try interruption.check()
            if !isWanted() { return false }
        } while poll(&waiting, 1, 100) == 0
        return true
    }
}
