internal import JSONText

/// A JSON value that has not been parsed yet. Members of a message's envelope are read one by one, and its payload goes as text
/// to the parser that knows its meaning.
public struct RawJSON: Sendable, Equatable {
    public let bytes: ArraySlice<UInt8>

    public init(_ bytes: [UInt8]) { self.bytes = bytes[...] }

    private init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    /// The text, for a parser.
    public var text: [UInt8] { Array(bytes) }

    public var isNull: Bool { bytes.elementsEqual("null".utf8) }
    public var isObject: Bool { bytes.first == UInt8(ascii: "{") }

    /// The members of an object, in order, or nil if the value is no object. Values are delimited but not checked: the code
    /// that uses a value must parse it.
    public var members: [(key: String, value: RawJSON)]? {
        var index = bytes.startIndex
        skipSpace(&index)
        guard take(UInt8(ascii: "{"), &index) else { return nil }
        var found: [(key: String, value: RawJSON)] = []
        skipSpace(&index)
        if take(UInt8(ascii: "}"), &index) { return isAtEnd(index) ? found : nil }
        while true {
            skipSpace(&index)
            let keyStart = index
            guard skipString(&index), let key = Self.string(bytes[keyStart..<index]) else { return nil }
            skipSpace(&index)
            guard take(UInt8(ascii: ":"), &index) else { return nil }
            skipSpace(&index)
            let start = index
            guard skipValue(&index) else { return nil }
            found.append((key, RawJSON(bytes[start..<index])))
            skipSpace(&index)
            if take(UInt8(ascii: ","), &index) { continue }
            guard take(UInt8(ascii: "}"), &index) else { return nil }
            return isAtEnd(index) ? found : nil
        }
    }

    /// The elements of an array, in order, or nil if the value is no array.
    public var elements: [RawJSON]? {
        var index = bytes.startIndex
        skipSpace(&index)
        guard take(UInt8(ascii: "["), &index) else { return nil }
        var found: [RawJSON] = []
        skipSpace(&index)
        if take(UInt8(ascii: "]"), &index) { return isAtEnd(index) ? found : nil }
        while true {
            skipSpace(&index)
            let start = index
            guard skipValue(&index) else { return nil }
            found.append(RawJSON(bytes[start..<index]))
            skipSpace(&index)
            if take(UInt8(ascii: ","), &index) { continue }
            guard take(UInt8(ascii: "]"), &index) else { return nil }
            return isAtEnd(index) ? found : nil
        }
    }

    /// The text of a string value, or nil.
    public var string: String? { Self.string(bytes) }

    /// A whole number, or nil.
    public var integer: Int64? {
        guard case .int(let value)? = scalar else { return nil }
        return value
    }

    public var bool: Bool? {
        guard case .bool(let value)? = scalar else { return nil }
        return value
    }

    /// A string, number, boolean or null, or nil for other values.
    public var scalar: Node? {
        guard let first = bytes.first, first != UInt8(ascii: "{"), first != UInt8(ascii: "[") else { return nil }
        return try? JSONParser.parse(Array(bytes)).node
    }

    private static func string(_ bytes: ArraySlice<UInt8>) -> String? {
        if let text = plainString(bytes) { return text }
        guard bytes.first == UInt8(ascii: "\""), case .string(let text)? = try? JSONParser.parse(Array(bytes)).node
        else { return nil }
        return text
    }

    /// Returns a short text without escapes, such as a member's name or most paths, without a parser. Returns nil for any other
    /// text.
    private static func plainString(_ bytes: ArraySlice<UInt8>) -> String? {
        guard bytes.count >= 2, bytes.count <= 1_024, bytes.first == UInt8(ascii: "\""),
            bytes.last == UInt8(ascii: "\"")
        else { return nil }
        let text = bytes.dropFirst().dropLast()
        for byte in text where byte < 0x20 || byte > 0x7E || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") {
            return nil
        }
        return String(decoding: text, as: UTF8.self)
    }

    // MARK: Delimiting

    private func skipSpace(_ index: inout Int) {
        while index < bytes.endIndex,
            bytes[index] == 0x20 || bytes[index] == 0x0A || bytes[index] == 0x0D || bytes[index] == 0x09
        {
            index += 1
        }
    }

    private func take(_ byte: UInt8, _ index: inout Int) -> Bool {
        guard index < bytes.endIndex, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    private func isAtEnd(_ index: Int) -> Bool {
        var index = index
        skipSpace(&index)
        return index == bytes.endIndex
    }

    private func skipString(_ index: inout Int) -> Bool {
        guard take(UInt8(ascii: "\""), &index) else { return false }
        while index < bytes.endIndex {
            switch bytes[index] {
            case UInt8(ascii: "\\"): index += 2
            case UInt8(ascii: "\""):
                index += 1
                return true
            default: index += 1
            }
        }
        return false
    }

    /// Advances past the value that begins here. Brackets are counted, without recursion.
    private func skipValue(_ index: inout Int) -> Bool {
        guard index < bytes.endIndex else { return false }
        switch bytes[index] {
        case UInt8(ascii: "\""): return skipString(&index)
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            var depth = 0
            while index < bytes.endIndex {
                switch bytes[index] {
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    depth -= 1
                    if depth == 0 {
                        index += 1
                        return true
                    }
                case UInt8(ascii: "\""):
                    guard skipString(&index) else { return false }
                    continue
                default: break
                }
                index += 1
            }
            return false
        default:
            let start = index
            while index < bytes.endIndex {
                switch bytes[index] {
                case UInt8(ascii: ","), UInt8(ascii: "}"), UInt8(ascii: "]"), 0x20, 0x0A, 0x0D, 0x09:
                    return index > start
                default: index += 1
                }
            }
            return index > start
        }
    }
}

extension RawJSON {
    /// Whether the whole text is one JSON value (RFC 8259) in UTF-8, as required of text that is forwarded unchanged. Keys may
    /// be any text and may repeat. One pass; nesting takes one byte per level.
    public var isJSON: Bool {
        guard String(validating: bytes, as: UTF8.self) != nil else { return false }
        return bytes.withUnsafeBufferPointer { buffer in
            var check = JSONSyntax(buffer)
            return check.isValue()
        }
    }
}

/// Checks the syntax of a text in one pass, and builds nothing.
private struct JSONSyntax {
    private var scanner: JSONScanner
    /// The brackets that are open, as the bytes that close them.
    private var open: [UInt8] = []

    init(_ bytes: UnsafeBufferPointer<UInt8>) { scanner = JSONScanner(bytes) }

    mutating func isValue() -> Bool {
        while true {
            scanner.skipSpace()
            guard begin() else { return false }
            // After a value. An empty array or object ends like one whose last element was just read.
            while true {
                scanner.skipSpace()
                guard let closing = open.last else { return scanner.isAtEnd }
                if scanner.take(closing) {
                    open.removeLast()
                } else if scanner.take(UInt8(ascii: ",")) {
                    scanner.skipSpace()
                    guard closing == UInt8(ascii: "]") || key() else { return false }
                    break
                } else {
                    return false
                }
            }
        }
    }

    /// Reads a scalar or an empty container, or everything before the first value within a container.
    private mutating func begin() -> Bool {
        while true {
            switch scanner.peek {
            case UInt8(ascii: "["):
                guard scanner.enter(closing: UInt8(ascii: "]")) else { return true }
                open.append(UInt8(ascii: "]"))
            case UInt8(ascii: "{"):
                guard scanner.enter(closing: UInt8(ascii: "}")) else { return true }
                guard key() else { return false }
                open.append(UInt8(ascii: "}"))
            case UInt8(ascii: "\""): return scanner.skipString()
            case UInt8(ascii: "t"): return scanner.take("true")
            case UInt8(ascii: "f"): return scanner.take("false")
            case UInt8(ascii: "n"): return scanner.take("null")
            default: return (try? scanner.number()) != nil
            }
            scanner.skipSpace()
        }
    }

    /// Reads a member's name and the colon.
    private mutating func key() -> Bool {
        guard scanner.peek == UInt8(ascii: "\""), scanner.skipString() else { return false }
        scanner.skipSpace()
        guard scanner.take(UInt8(ascii: ":")) else { return false }
        scanner.skipSpace()
        return true
    }
}
