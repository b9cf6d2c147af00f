/// Why a text is not data that can be stored. Says where: lines and columns count from 1, columns in bytes.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: Equatable, Sendable {
        /// Not JSON, or not UTF-8.
        case syntax
        /// A key that the database cannot have.
        case key
        /// Well-formed, but beyond a limit or without a meaning: depth, string size, number range, server value, priority.
        case value
    }

    public let kind: Kind
    public let reason: String
    public let line: Int
    public let column: Int

    init(_ kind: Kind, _ reason: String, at offset: Int, in bytes: UnsafeBufferPointer<UInt8>) {
        self.kind = kind
        self.reason = reason
        var line = 1
        var lineStart = 0
        for index in 0..<min(offset, bytes.count) where bytes[index] == 0x0A {
            line += 1
            lineStart = index + 1
        }
        self.line = line
        column = offset - lineStart + 1
    }

    public var description: String { "Line \(line), column \(column): \(reason)" }
}
