import Glibc
import Synchronization

/// Reads a file, or standard input for `-`, piece by piece. Any thread, one at a time.
final class FileReader: Sendable {
    let path: String
    /// The file's size, or nil for pipes and devices.
    let byteCount: Int?
    private let descriptor: Int32
    private let isOpened: Bool
    private let interruption: Interruption?
    private let bytesSoFar = Atomic(0)

    var bytesRead: Int { bytesSoFar.load(ordering: .relaxed) }

    /// - Parameters:
    ///   - standardInput: the descriptor that `-` names.
    ///   - interruption: ends the wait for more bytes.
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

    /// Returns the next piece, or nil at the end.
    ///
    /// - Parameter isWanted: called repeatedly while no bytes arrive. `next` returns nil once the result is false.
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

    /// Waits for bytes or the end of the file, without a deadline: the writer of a pipe may be slow.
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

/// Reading files, with errors that name them.
enum Files {
    /// A file name that does not depend on the working directory.
    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        return String(cString: directory) + "/" + path
    }

    /// Reads a file that is no pipe or device, whose writer could block the reader.
    static func readRegular(_ path: String, maxBytes: Int) throws -> [UInt8] {
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw CommandFailure("\(path) can't be read: \(String(cString: strerror(errno))).")
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw CommandFailure("\(path) is not a file.") }
        return try read(path, maxBytes: maxBytes)
    }

    /// - Parameter standardInput: the descriptor that `-` names.
    static func read(
        _ path: String, maxBytes: Int = 64 << 20, standardInput: Int32 = STDIN_FILENO
    ) throws -> [UInt8] {
        let file = try FileReader(path, standardInput: standardInput)
        var bytes: [UInt8] = []
        while let piece = try file.next() {
            bytes.append(contentsOf: piece)
            guard bytes.count <= maxBytes else { throw CommandFailure("\(path) is larger than \(maxBytes) bytes.") }
        }
        return bytes
    }
}

/// Reads a file, or standard input for `-`, line by line; empty lines are left out.
struct LineReader {
    private let reader: FileReader
    private var buffer: [UInt8] = []
    private var start = 0
    private var isAtEnd = false
    private(set) var number = 0
    /// Bytes up to the end of the last line, with its line end.
    private(set) var offset = 0

    private static let maxLine = 1 << 30

    init(_ reader: FileReader) { self.reader = reader }

    /// Returns the next line; `isWhole` is false for a last line without a line end.
    mutating func next() throws -> (text: [UInt8], isWhole: Bool)? {
        var searched = start
        while true {
            if let end = buffer[searched...].firstIndex(of: 0x0A) {
                let line = Array(buffer[start..<end])
                offset += line.count + 1
                number += 1
                start = end + 1
                searched = start
                if line.isEmpty { continue }
                return (line, true)
            }
            if isAtEnd {
                guard start < buffer.count else { return nil }
                let line = Array(buffer[start...])
                start = buffer.count
                number += 1
                return (line, false)
            }
            buffer.removeFirst(start)
            start = 0
            searched = buffer.count
            guard buffer.count < Self.maxLine else {
                throw CommandFailure("\(reader.path) has a line over \(Self.maxLine) bytes.")
            }
            if let piece = try reader.next() { buffer.append(contentsOf: piece) } else { isAtEnd = true }
        }
    }
}
