internal import JSONText

/// Parses the JSON of tokens and key sets strictly: RFC 8259, valid UTF-8, unique names, no text after the value,
/// bounded depth. Two parsers must not read different claims from one token.
public struct ClaimsReader {
    private var scanner: JSONScanner
    private var depth = 0
    private static let maxDepth = 32

    /// Parses a text that is one object.
    ///
    /// - Throws: `malformed`.
    public static func object(_ bytes: [UInt8]) throws(JWTError) -> Claims {
        guard case .object(let claims) = try value(bytes) else { throw .malformed("not a JSON object") }
        return claims
    }

    /// Parses a text that is one value.
    ///
    /// - Throws: `malformed`.
    public static func value(_ bytes: [UInt8]) throws(JWTError) -> ClaimValue {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw .malformed("not UTF-8") }
        return try bytes.withUnsafeBufferPointer { (buffer) throws(JWTError) in
            var reader = ClaimsReader(scanner: JSONScanner(buffer))
            let value = try reader.value()
            reader.scanner.skipSpace()
            guard reader.scanner.isAtEnd else { throw .malformed("text after the JSON") }
            return value
        }
    }

    private init(scanner: JSONScanner) { self.scanner = scanner }

    /// Runs a step of the scanner, and converts its error to that of a token.
    private mutating func step<Result>(
        _ body: (inout JSONScanner) throws(JSONFault) -> Result
    ) throws(JWTError) -> Result {
        do { return try body(&scanner) } catch {
            switch error.kind {
            case .leadingZero: throw .malformed("bad number")
            case .openString: throw .malformed("an unterminated string")
            case .controlCharacter: throw .malformed("an unescaped control character")
            case .unknownEscape, .badHexDigits: throw .malformed("a bad escape")
            case .halfOfPair: throw .malformed("a lone surrogate")
            case .noValue, .noName, .noColon, .noSeparator, .noFirstDigit, .noDigit: throw .malformed("bad JSON")
            }
        }
    }

    private mutating func value() throws(JWTError) -> ClaimValue {
        scanner.skipSpace()
        switch scanner.peek {
        case UInt8(ascii: "{"): return .object(try members())
        case UInt8(ascii: "["): return .array(try elements())
        case UInt8(ascii: "\""): return .string(try step { (scanner) throws(JSONFault) in try scanner.string() })
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ text: StaticString, _ value: ClaimValue) throws(JWTError) -> ClaimValue {
        guard scanner.take(text) else { throw .malformed("bad JSON") }
        return value
    }

    /// Enters an object or array; returns false if it is empty.
    private mutating func enter(closing: UInt8) throws(JWTError) -> Bool {
        guard depth < Self.maxDepth else { throw .malformed("JSON nested too deeply") }
        return scanner.enter(closing: closing)
    }

    private mutating func members() throws(JWTError) -> Claims {
        var claims = Claims()
        guard try enter(closing: UInt8(ascii: "}")) else { return claims }
        depth += 1
        defer { depth -= 1 }
        var names = Set<[UInt8]>()
        repeat {
            let name = try step { (scanner) throws(JSONFault) in try scanner.name() }
            // Names are compared as bytes: two Unicode spellings of one character are two names.
            guard names.insert(Array(name.utf8)).inserted else { throw .malformed("a duplicate name") }
            try step { (scanner) throws(JSONFault) in try scanner.colon() }
            claims.append(name, try value())
        } while try step { (scanner) throws(JSONFault) in try scanner.hasNext(closing: UInt8(ascii: "}")) }
        return claims
    }

    private mutating func elements() throws(JWTError) -> [ClaimValue] {
        var values: [ClaimValue] = []
        guard try enter(closing: UInt8(ascii: "]")) else { return values }
        depth += 1
        defer { depth -= 1 }
        repeat {
            values.append(try value())
        } while try step { (scanner) throws(JSONFault) in try scanner.hasNext(closing: UInt8(ascii: "]")) }
        return values
    }

    private mutating func number() throws(JWTError) -> ClaimValue {
        let number = try step { (scanner) throws(JSONFault) in try scanner.number() }
        let text = String(decoding: scanner.bytes[number.range], as: UTF8.self)
        if number.isWhole, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { throw .malformed("bad number") }
        return .number(number)
    }
}
