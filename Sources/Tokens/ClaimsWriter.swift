import Crypto

/// Writes claims as JSON without blanks.
public struct ClaimsWriter {
    private(set) var bytes: [UInt8] = []

    /// The claims' JSON text, with their keys in order.
    public static func encode(_ claims: Claims) -> [UInt8] { encode(.object(claims)) }

    /// A value's JSON text.
    public static func encode(_ value: ClaimValue) -> [UInt8] {
        var writer = ClaimsWriter()
        writer.write(value)
        return writer.bytes
    }

    private mutating func write(_ value: ClaimValue) {
        switch value {
        case .null: raw("null")
        case .bool(let flag): raw(flag ? "true" : "false")
        case .integer(let number): raw("\(number)")
        // Whole numbers in their short form; JSON has no infinities.
        case .number(let number): raw(number.isFinite ? "\(number)" : "null")
        case .string(let text): write(text)
        case .array(let values):
            raw("[")
            for (index, value) in values.enumerated() {
                if index > 0 { raw(",") }
                write(value)
            }
            raw("]")
        case .object(let claims):
            raw("{")
            for (index, member) in claims.members.enumerated() {
                if index > 0 { raw(",") }
                write(member.name)
                raw(":")
                write(member.value)
            }
            raw("}")
        }
    }

    private mutating func write(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(contentsOf: [UInt8(ascii: "\\"), byte])
            case 0..<0x20, 0x7F: raw("\\u00\(Hex.encode([byte]))")
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }
}
