/// A JSON value that has not been parsed yet: a message's envelope is looked into member by member, and its payload goes
/// as text to the parser that knows what it means.
public struct RawJSON: Sendable, Equatable {
    public let bytes: ArraySlice<UInt8>

    public init(_ bytes: [UInt8]) { self.bytes = bytes[...] }

    private init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    /// The text, for a parser.
    public var text: [UInt8] { Array(bytes) }

    public var isNull: Bool { bytes.elementsEqual("null".utf8) }
    public var isObject: Bool { bytes.first == UInt8(ascii: "{") }

    /// The members of an object, in order; nil for what is no object. Values are delimited, not checked: whoever uses one
    /// parses it.
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

    /// The elements of an array, in order; nil for what is no array.
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

    /// A string, number, boolean or null; nil for anything else.
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

    /// A short text without escapes, as member names and most paths are: not worth a parser. Nil for any other.
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

    /// Moves behind the value that begins here. Brackets are counted, not recursed into.
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
