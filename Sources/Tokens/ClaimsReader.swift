/// Reads the JSON of tokens and key sets, strictly: RFC 8259, valid UTF-8, no name twice, nothing behind the value,
/// bounded depth. Two readers of one token must not come to different claims.
public struct ClaimsReader {
    private let bytes: [UInt8]
    private var index = 0
    private var depth = 0
    private static let maxDepth = 32

    /// - Throws: `malformed`.
    public static func object(_ bytes: [UInt8]) throws(JWTError) -> Claims {
        guard case .object(let claims) = try value(bytes) else { throw .malformed("not a JSON object") }
        return claims
    }

    /// Reads a JSON text. Throws where it is no JSON, has a key twice, or is nested too deep.
    public static func value(_ bytes: [UInt8]) throws(JWTError) -> ClaimValue {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw .malformed("not UTF-8") }
        var reader = ClaimsReader(bytes: bytes)
        let value = try reader.value()
        reader.skipSpace()
        guard reader.index == bytes.count else { throw .malformed("something behind the JSON") }
        return value
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    private mutating func take(_ expected: UInt8) throws(JWTError) {
        guard peek == expected else { throw .malformed("bad JSON") }
        index += 1
    }

    private mutating func value() throws(JWTError) -> ClaimValue {
        skipSpace()
        switch peek {
        case UInt8(ascii: "{"): return .object(try members())
        case UInt8(ascii: "["): return .array(try elements())
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ text: StaticString, _ value: ClaimValue) throws(JWTError) -> ClaimValue {
        for offset in 0..<text.utf8CodeUnitCount { try take(text.utf8Start[offset]) }
        return value
    }

    private mutating func enter() throws(JWTError) {
        depth += 1
        guard depth <= Self.maxDepth else { throw .malformed("JSON nested too deeply") }
        index += 1
        skipSpace()
    }

    private mutating func members() throws(JWTError) -> Claims {
        try enter()
        defer { depth -= 1 }
        var claims = Claims()
        var names = Set<[UInt8]>()
        if peek == UInt8(ascii: "}") {
            index += 1
            return claims
        }
        while true {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else { throw .malformed("bad JSON") }
            let name = try string()
            // Bytes: two spellings of one letter are two names.
            guard names.insert(Array(name.utf8)).inserted else { throw .malformed("a name comes twice") }
            skipSpace()
            try take(UInt8(ascii: ":"))
            claims.append(name, try value())
            if try isLast(before: UInt8(ascii: "}")) { return claims }
        }
    }

    private mutating func elements() throws(JWTError) -> [ClaimValue] {
        try enter()
        defer { depth -= 1 }
        var values: [ClaimValue] = []
        if peek == UInt8(ascii: "]") {
            index += 1
            return values
        }
        while true {
            values.append(try value())
            if try isLast(before: UInt8(ascii: "]")) { return values }
        }
    }

    private mutating func isLast(before end: UInt8) throws(JWTError) -> Bool {
        skipSpace()
        if peek == UInt8(ascii: ",") {
            index += 1
            return false
        }
        try take(end)
        return true
    }

    private mutating func number() throws(JWTError) -> ClaimValue {
        let start = index
        if peek == UInt8(ascii: "-") { index += 1 }
        let firstDigit = index
        try digits()
        guard bytes[firstDigit] != UInt8(ascii: "0") || index == firstDigit + 1 else { throw .malformed("bad number") }
        var isWhole = true
        if peek == UInt8(ascii: ".") {
            isWhole = false
            index += 1
            try digits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            isWhole = false
            index += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { index += 1 }
            try digits()
        }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        if isWhole, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { throw .malformed("bad number") }
        return .number(number)
    }

    private mutating func digits() throws(JWTError) {
        let start = index
        while let byte = peek, (0x30...0x39).contains(byte) { index += 1 }
        guard index > start else { throw .malformed("bad JSON") }
    }

    private mutating func string() throws(JWTError) -> String {
        index += 1
        var text: [UInt8] = []
        while let byte = peek {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): text.append(contentsOf: String(try escape()).utf8)
            case 0..<0x20: throw .malformed("a bare control character")
            default: text.append(byte)
            }
        }
        throw .malformed("an open string")
    }

    private mutating func escape() throws(JWTError) -> Unicode.Scalar {
        guard let byte = peek else { throw .malformed("an open string") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let unit = try codeUnit()
            if let scalar = Unicode.Scalar(unit) { return scalar }
            // The first of a pair; anything else is half a character.
            guard unit < 0xDC00, bytes[index...].starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]) else {
                throw .malformed("half a character")
            }
            index += 2
            let low = try codeUnit()
            guard (0xDC00...0xDFFF).contains(low),
                let scalar = Unicode.Scalar(0x1_0000 + (unit - 0xD800) << 10 + (low - 0xDC00))
            else { throw .malformed("half a character") }
            return scalar
        default: throw .malformed("a bad escape")
        }
    }

    private mutating func codeUnit() throws(JWTError) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, byte < 0x80, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw .malformed("a bad escape")
            }
            unit = unit << 4 | UInt32(digit)
            index += 1
        }
        return unit
    }
}
