/// Where something is in a text; lines and columns count from 1, columns in bytes.
public struct SourcePlace: Sendable, Equatable {
    public let line: Int
    public let column: Int
}

/// A JSON value of a file that people write: keeps the order of keys, and knows where everything is.
struct SourceValue: Sendable {
    indirect enum Kind: Sendable {
        case null
        case bool(Bool)
        /// As it was written.
        case number(String)
        case string(String)
        case array([SourceValue])
        case object([Member])
    }

    struct Member: Sendable {
        let key: String
        let place: SourcePlace
        let value: SourceValue
    }

    let kind: Kind
    let place: SourcePlace

    /// What the value is, for messages.
    var kindName: String {
        switch kind {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

/// Why a text is not JSON.
struct SourceTextError: Error {
    let place: SourcePlace
    let reason: String
}

/// Reads JSON text strictly (RFC 8259); equal keys in one object are an error.
struct SourceText {
    private let bytes: [UInt8]
    private var index = 0
    /// Where each line begins: every value asks for its place.
    private let lineStarts: [Int]
    private static let maxDepth = 64

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
        lineStarts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }
    }

    static func read(_ bytes: [UInt8]) throws(SourceTextError) -> SourceValue {
        var text = SourceText(bytes)
        if let bad = text.firstBadByte {
            throw SourceTextError(place: text.place(of: bad), reason: "this is not UTF-8")
        }
        let value = try text.value(0)
        text.skipSpace()
        if text.index < bytes.count { throw text.error("there is more text after the value") }
        return value
    }

    private var firstBadByte: Int? {
        String(validating: bytes, as: UTF8.self) == nil ? 0 : nil
    }

    private func place(of offset: Int) -> SourcePlace {
        // The last line that begins at or before it.
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return SourcePlace(line: low + 1, column: offset - lineStarts[low] + 1)
    }

    private func error(_ reason: String) -> SourceTextError {
        SourceTextError(place: place(of: index), reason: reason)
    }

    private mutating func skipSpace() {
        while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
    }

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func value(_ depth: Int) throws(SourceTextError) -> SourceValue {
        skipSpace()
        guard depth <= Self.maxDepth else { throw error("the text is more than \(Self.maxDepth) levels deep") }
        let place = place(of: index)
        guard let first = peek else { throw error("the text ends where a value should be") }
        let kind: SourceValue.Kind
        switch first {
        case UInt8(ascii: "{"): kind = try object(depth)
        case UInt8(ascii: "["): kind = try array(depth)
        case UInt8(ascii: "\""): kind = .string(try string())
        case UInt8(ascii: "-"), 0x30...0x39: kind = .number(try number())
        default: kind = try word()
        }
        return SourceValue(kind: kind, place: place)
    }

    private mutating func word() throws(SourceTextError) -> SourceValue.Kind {
        let words: [(String, SourceValue.Kind)] = [("true", .bool(true)), ("false", .bool(false)), ("null", .null)]
        for (text, kind) in words where bytes[index...].starts(with: text.utf8) {
            index += text.utf8.count
            return kind
        }
        throw error("unexpected character where a value should be")
    }

    private mutating func object(_ depth: Int) throws(SourceTextError) -> SourceValue.Kind {
        index += 1
        var members: [SourceValue.Member] = []
        var seen: Set<String> = []
        skipSpace()
        if peek == UInt8(ascii: "}") {
            index += 1
            return .object([])
        }
        while true {
            skipSpace()
            let place = place(of: index)
            guard peek == UInt8(ascii: "\"") else { throw error("expected a key in double quotes") }
            let key = try string()
            guard seen.insert(key).inserted else {
                throw SourceTextError(place: place, reason: "\"\(key)\" comes twice in one object")
            }
            skipSpace()
            guard peek == UInt8(ascii: ":") else { throw error("expected : after a key") }
            index += 1
            members.append(.init(key: key, place: place, value: try value(depth + 1)))
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "}"):
                index += 1
                return .object(members)
            default: throw error("expected , or } in an object")
            }
        }
    }

    private mutating func array(_ depth: Int) throws(SourceTextError) -> SourceValue.Kind {
        index += 1
        var elements: [SourceValue] = []
        skipSpace()
        if peek == UInt8(ascii: "]") {
            index += 1
            return .array([])
        }
        while true {
            elements.append(try value(depth + 1))
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "]"):
                index += 1
                return .array(elements)
            default: throw error("expected , or ] in an array")
            }
        }
    }

    private mutating func number() throws(SourceTextError) -> String {
        let start = index
        if peek == UInt8(ascii: "-") { index += 1 }
        let digits = index
        skipDigits()
        guard index > digits, bytes[digits] != 0x30 || index == digits + 1 else { throw error("this is not a number") }
        if peek == UInt8(ascii: ".") {
            index += 1
            let fraction = index
            skipDigits()
            guard index > fraction else { throw error("expected a digit") }
        }
        if let byte = peek, byte | 0x20 == UInt8(ascii: "e") {
            index += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { index += 1 }
            let exponent = index
            skipDigits()
            guard index > exponent else { throw error("expected a digit") }
        }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func skipDigits() {
        while let byte = peek, byte &- 0x30 <= 9 { index += 1 }
    }

    private mutating func string() throws(SourceTextError) -> String {
        index += 1
        var text: [UInt8] = []
        while let byte = peek {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): text.append(contentsOf: String(try escape()).utf8)
            case 0..<0x20:
                index -= 1
                throw error("a control character in a string")
            default: text.append(byte)
            }
        }
        throw error("the text ends inside a string")
    }

    private mutating func escape() throws(SourceTextError) -> Character {
        guard let byte = peek else { throw error("the text ends inside a string") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            var value = try hexUnit()
            if value & 0xFC00 == 0xD800, bytes[index...].starts(with: [0x5C, 0x75]) {
                index += 2
                let low = try hexUnit()
                guard low & 0xFC00 == 0xDC00 else { throw error("half of a surrogate pair") }
                value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = UnicodeScalar(value) else { throw error("half of a surrogate pair") }
            return Character(scalar)
        default:
            index -= 1
            throw error("unknown escape in a string")
        }
    }

    private mutating func hexUnit() throws(SourceTextError) -> UInt32 {
        var value: UInt32 = 0
        for offset in 0..<4 {
            guard index + offset < bytes.count, let digit = Self.hexDigit(bytes[index + offset]) else {
                throw error("expected four hexadecimal digits")
            }
            value = value << 4 | digit
        }
        index += 4
        return value
    }

    private static func hexDigit(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x30...0x39: UInt32(byte) - 0x30
        case 0x41...0x46: UInt32(byte) - 0x37
        case 0x61...0x66: UInt32(byte) - 0x57
        default: nil
        }
    }
}
