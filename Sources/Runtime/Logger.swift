internal import Glibc
internal import Synchronization

/// Writes structured lines to standard error: one event per line, as `key=value` text or JSON.
public final class Logger: Sendable {
    /// The output that several loggers share.
    private final class Output: Sendable {
        private let descriptor: Int32
        private let isWriting = Mutex(())

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        func write(_ line: String) {
            isWriting.withLock { _ in
                var text = line
                text.withUTF8 { buffer in
                    // A log that cannot be written must not stop the service.
                    _ = Glibc.write(descriptor, buffer.baseAddress, buffer.count)
                }
            }
        }
    }

    public enum Level: Int, Sendable, Comparable, CaseIterable {
        case debug, info, notice, warning, error

        public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }

        public var name: String { "\(self)" }

        public init?(name: String) {
            guard let level = Level.allCases.first(where: { $0.name == name }) else { return nil }
            self = level
        }
    }

    public enum Format: String, Sendable {
        case text, json
    }

    private let level: Level
    private let format: Format
    private let output: Output
    /// Fields that are added after those of each line.
    private let common: [(String, String)]

    public init(level: Level = .info, format: Format = .text, descriptor: Int32 = 2) {
        self.level = level
        self.format = format
        output = Output(descriptor)
        common = []
    }

    private init(_ logger: Logger, _ fields: [(String, String)]) {
        level = logger.level
        format = logger.format
        output = logger.output
        common = logger.common + fields
    }

    /// Returns a logger for the same output that adds some fields to each line.
    public func adding(_ fields: [(String, String)]) -> Logger { Logger(self, fields) }

    /// Writes a line if its level is enabled. Fields keep their order.
    public func log(_ level: Level, _ message: String, _ fields: [(String, String)] = []) {
        guard level >= self.level else { return }
        let fields = fields + common
        var line = ""
        switch format {
        case .text:
            line = "\(Self.timestamp()) \(level.name) \(Self.oneLine(message))"
            for (key, value) in fields { line += " \(key)=\(Self.quotedIfNeeded(value))" }
        case .json:
            line = "{\"time\":\"\(Self.timestamp())\",\"level\":\"\(level.name)\",\"message\":\(Self.json(message))"
            for (key, value) in fields { line += ",\(Self.json(key)):\(Self.json(value))" }
            line += "}"
        }
        line += "\n"
        output.write(line)
    }

    /// Logs a detail for debugging.
    public func debug(_ message: String, _ fields: [(String, String)] = []) { log(.debug, message, fields) }
    /// Logs an event of normal operation.
    public func info(_ message: String, _ fields: [(String, String)] = []) { log(.info, message, fields) }
    /// Logs an event that operators may want to know.
    public func notice(_ message: String, _ fields: [(String, String)] = []) { log(.notice, message, fields) }
    /// Logs a problem that operators should check when they have time.
    public func warning(_ message: String, _ fields: [(String, String)] = []) { log(.warning, message, fields) }
    /// Logs a problem that operators have to check.
    public func error(_ message: String, _ fields: [(String, String)] = []) { log(.error, message, fields) }

    /// The current time as `2026-01-31T23:59:59.123Z`.
    private static func timestamp() -> String {
        let milliseconds = Clock.unixMilliseconds
        return Timestamp.iso8601(unixMilliseconds: milliseconds)
    }

    private static func oneLine(_ text: String) -> String {
        text.contains("\n") ? text.split(separator: "\n").joined(separator: " ") : text
    }

    private static func quotedIfNeeded(_ text: String) -> String {
        let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x3D && $0 != 0x7F }
        return isPlain ? text : json(text)
    }

    private static func json(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
