/// JSON of RFC 8259, read by the tests' own reader, so that the program's writer is not checked by the program's reader.
enum JSONText: Equatable, Sendable {
    case null
    case bool(Bool)
    /// The digits, unchanged.
    case number(String)
    case text(String)
    case list([JSONText])
    case object([String: JSONText])

    struct Failure: Error {
        let text: String
        let offset: Int
    }

    init(reading text: String) throws {
        var reader = Reader(text: text, bytes: Array(text.utf8))
        self = try reader.value()
        reader.skipSpace()
        guard reader.index == reader.bytes.count else { throw reader.failure }
    }

    subscript(_ name: String) -> JSONText? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    subscript(_ index: Int) -> JSONText? {
        if case .list(let items) = self, items.indices.contains(index) { items[index] } else { nil }
    }

    var string: String? { if case .text(let text) = self { text } else { nil } }
    var int: Int? { if case .number(let digits) = self { Int(digits) } else { nil } }
    var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    var items: [JSONText] { if case .list(let items) = self { items } else { [] } }
    var names: Set<String> { if case .object(let members) = self { Set(members.keys) } else { [] } }
}

extension JSONText: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    init(stringLiteral value: String) { self = .text(value) }
    init(integerLiteral value: Int) { self = .number(String(value)) }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(arrayLiteral elements: JSONText...) { self = .list(elements) }
    init(dictionaryLiteral elements: (String, JSONText)...) {
        self = .object(Dictionary(uniqueKeysWithValues: elements))
    }
    init(nilLiteral: ()) { self = .null }
}

private struct Reader {
    let text: String
    let bytes: [UInt8]
    var index = 0

    var failure: JSONText.Failure { JSONText.Failure(text: text, offset: index) }

    mutating func skipSpace() {
        while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
    }

    mutating func take(_ expected: String) -> Bool {
        guard bytes[index...].starts(with: expected.utf8) else { return false }
        index += expected.utf8.count
        return true
    }

    mutating func expect(_ expected: String) throws { guard take(expected) else { throw failure } }

    mutating func value() throws -> JSONText {
        skipSpace()
        if take("null") { return .null }
        if take("true") { return .bool(true) }
        if take("false") { return .bool(false) }
        if take("\"") { return .text(try string()) }
        if take("[") { return .list(try list()) }
        if take("{") { return .object(try object()) }
        return .number(try number())
    }

    private mutating func list() throws -> [JSONText] {
        var items: [JSONText] = []
        skipSpace()
        if take("]") { return items }
        while true {
            items.append(try value())
            skipSpace()
            if take("]") { return items }
            try expect(",")
        }
    }

    private mutating func object() throws -> [String: JSONText] {
        var members: [String: JSONText] = [:]
        skipSpace()
        if take("}") { return members }
        while true {
            skipSpace()
            try expect("\"")
            let name = try string()
            skipSpace()
            try expect(":")
            guard members.updateValue(try value(), forKey: name) == nil else { throw failure }
            skipSpace()
            if take("}") { return members }
            try expect(",")
        }
    }

    private mutating func number() throws -> String {
        let start = index
        while index < bytes.count, "+-.eE0123456789".utf8.contains(bytes[index]) { index += 1 }
        let digits = String(decoding: bytes[start..<index], as: UTF8.self)
        guard Double(digits) != nil, !digits.hasPrefix("+"), !digits.hasPrefix(".") else { throw failure }
        return digits
    }

    /// The text after a quote, up to the next one.
    private mutating func string() throws -> String {
        var units: [UInt8] = []
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            switch byte {
            case 0x22: return String(decoding: units, as: UTF8.self)
            case 0..<0x20: throw failure
            case 0x5C: units += Array(String(try escaped()).utf8)
            default: units.append(byte)
            }
        }
        throw failure
    }

    private mutating func escaped() throws -> Unicode.Scalar {
        guard index < bytes.count else { throw failure }
        let byte = bytes[index]
        index += 1
        let simple: [UInt8: Unicode.Scalar] = [
            0x22: "\"", 0x5C: "\\", 0x2F: "/", 0x62: "\u{8}", 0x66: "\u{C}", 0x6E: "\n", 0x72: "\r", 0x74: "\t",
        ]
        if let scalar = simple[byte] { return scalar }
        guard byte == 0x75 else { throw failure }
        let unit = try hex()
        if (0xD800..<0xDC00).contains(unit), take("\\u"), case let low = try hex(), (0xDC00..<0xE000).contains(low) {
            return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)) ?? "?"
        }
        guard let scalar = Unicode.Scalar(unit) else { throw failure }
        return scalar
    }

    private mutating func hex() throws -> UInt32 {
        guard index + 4 <= bytes.count,
            let unit = UInt32(String(decoding: bytes[index..<index + 4], as: UTF8.self), radix: 16)
        else { throw failure }
        index += 4
        return unit
    }
}
