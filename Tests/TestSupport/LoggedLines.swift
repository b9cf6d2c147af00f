import Glibc
public import Runtime

/// A logger whose lines a test can read.
public final class LoggedLines: Sendable {
    private let file: Int32
    public let logger: Logger

    public init(level: Logger.Level = .warning) {
        let path = TemporaryFolder.path("log")
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        // The file exists until it is closed.
        unlink(path)
        logger = Logger(level: level, descriptor: file)
    }

    deinit { close(file) }

    /// The text logged so far.
    public var text: String {
        var bytes = [UInt8](repeating: 0, count: Int(lseek(file, 0, SEEK_END)))
        let count = pread(file, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    /// Returns the lines that contain a text.
    public func lines(with part: String) -> [String] {
        text.split(separator: "\n").map(String.init).filter { $0.contains(part) }
    }
}
