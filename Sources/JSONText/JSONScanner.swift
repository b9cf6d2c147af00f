/// Reads JSON text (RFC 8259) token by token and reports violations of the grammar. It builds no values: each reader has its
/// own values, limits and messages.
///
/// Reads bytes of another owner, which must stay valid. The caller must check that they are UTF-8.
public struct JSONScanner {
    /// The whole text.
    public let bytes: UnsafeBufferPointer<UInt8>
    @usableFromInline var position = 0
    /// The offset of the next byte.
    @inlinable public var index: Int { position }

    /// Starts at the beginning of the text.
    @inlinable public init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// The next byte, or nil at the end.
    @inlinable public var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    /// Whether all bytes were read.
    @inlinable public var isAtEnd: Bool { position == bytes.count }

    /// Returns a fault at the next byte.
    public func fault(_ kind: JSONFault.Kind) -> JSONFault { JSONFault(kind, at: position) }

    /// Skips white space.
    @inlinable public mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    /// Skips the byte if it is next. Returns whether it was next.
    @inlinable public mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    /// Skips the word if all of it is next. Returns whether it was next.
    public mutating func take(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - position >= count else { return false }
        for offset in 0..<count where bytes[position + offset] != word.utf8Start[offset] { return false }
        position += count
        return true
    }

    // MARK: Objects and arrays

    /// Skips the opening bracket, which is next. Returns whether the container has content; if not, also skips the closing
    /// bracket.
    @inlinable public mutating func enter(closing: UInt8) -> Bool {
        position += 1
        skipSpace()
        return !take(closing)
    }

    /// Reads a member's name. Its colon follows.
    ///
    /// - Throws: `noName`, and the faults of `string`.
    public mutating func name() throws(JSONFault) -> String {
        skipSpace()
        guard peek == UInt8(ascii: "\"") else { throw fault(.noName) }
        return try string()
    }

    /// Skips the colon that must follow a name.
    ///
    /// - Throws: `noColon`.
    public mutating func colon() throws(JSONFault) {
        skipSpace()
        guard take(UInt8(ascii: ":")) else { throw fault(.noColon) }
    }

    /// Skips the separator after a member or element. Returns true for a comma, false for the closing bracket.
    ///
    /// - Throws: `noSeparator`.
    public mutating func hasNext(closing: UInt8) throws(JSONFault) -> Bool {
        skipSpace()
        if take(UInt8(ascii: ",")) { return true }
        guard take(closing) else { throw fault(.noSeparator) }
        return false
    }

    // MARK: Scalars

    /// Skips a number. Returns its range, and whether it has neither fraction nor exponent.
    ///
    /// - Throws: `noFirstDigit`, `leadingZero`, `noDigit`.
    public mutating func number() throws(JSONFault) -> (range: Range<Int>, isWhole: Bool) {
        let start = position
        _ = take(UInt8(ascii: "-"))
        let firstDigit = position
        skipDigits()
        guard position > firstDigit else { throw fault(.noFirstDigit) }
        guard bytes[firstDigit] != UInt8(ascii: "0") || position == firstDigit + 1 else { throw fault(.leadingZero) }
        var isWhole = true
        if take(UInt8(ascii: ".")) {
            isWhole = false
            try digits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        return (start..<position, isWhole)
    }

    private mutating func digits() throws(JSONFault) {
        let start = position
        skipDigits()
        guard position > start else { throw fault(.noDigit) }
    }

    private mutating func skipDigits() {
        while let byte = peek, byte &- 0x30 <= 9 { position += 1 }
    }

    /// Reads a string and resolves its escapes. Its opening quote is next.
    ///
    /// - Throws: `openString`, `controlCharacter`, and the faults of `JSONEscape`.
    public mutating func string() throws(JSONFault) -> String {
        let start = position + 1
        var seen: UInt64 = 0
        position = ByteScan.endOfPlainText(bytes, from: start, seen: &seen)
        if take(UInt8(ascii: "\"")) {
            return String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<(position - 1)]), as: UTF8.self)
        }
        var text = [UInt8](bytes[start..<position])
        while let byte = peek {
            guard byte == UInt8(ascii: "\\") else { throw fault(.controlCharacter) }
            let scalar = try JSONEscape.scalar(in: bytes, at: &position)
            text.append(contentsOf: Unicode.UTF8.encode(scalar).map { Array($0) } ?? [])
            let plain = position
            position = ByteScan.endOfPlainText(bytes, from: plain, seen: &seen)
            text.append(contentsOf: bytes[plain..<position])
            if take(UInt8(ascii: "\"")) { return String(decoding: text, as: UTF8.self) }
        }
        throw fault(.openString)
    }

    /// Skips a string whose opening quote is next, without checking that its surrogates form pairs. Returns false if the string
    /// is invalid.
    @inlinable public mutating func skipString() -> Bool {
        position += 1
        var seen: UInt64 = 0
        while true {
            position = ByteScan.endOfPlainText(bytes, from: position, seen: &seen)
            guard take(UInt8(ascii: "\\")) else { return take(UInt8(ascii: "\"")) }
            switch peek {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
                UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
                position += 1
            case UInt8(ascii: "u"):
                position += 1
                for _ in 0..<4 {
                    guard let digit = peek, JSONEscape.hexDigit(digit) != nil else { return false }
                    position += 1
                }
            default: return false
            }
        }
    }
}

/// A violation of JSON's grammar (RFC 8259), with its offset. Each reader has its own message for it.
public struct JSONFault: Error, Equatable, Sendable {
    /// The kind of violation.
    public enum Kind: Equatable, Sendable, CaseIterable {
        /// No value begins here, although one must.
        case noValue
        /// A name in double quotes is missing.
        case noName
        /// The colon after a name is missing.
        case noColon
        /// A comma or the closing bracket is missing.
        case noSeparator
        /// A number has no digit where its first should be.
        case noFirstDigit
        /// A number of several digits begins with 0. The offset is after the digits.
        case leadingZero
        /// A fraction or an exponent has no digit.
        case noDigit
        /// The text ends inside a string. The offset is the end.
        case openString
        /// A string contains a control character that is not escaped.
        case controlCharacter
        /// An unknown escape. The offset is after the backslash.
        case unknownEscape
        /// `\u` without four hexadecimal digits. The offset is that of the first expected digit.
        case badHexDigits
        /// A surrogate without its other half. The offset is after the last digits that were read.
        case halfOfPair
    }

    /// The kind of violation.
    public let kind: Kind
    /// The offset in bytes from the beginning of the text.
    public let offset: Int

    /// Creates a fault at an offset.
    public init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}

/// The escapes in JSON's strings.
public enum JSONEscape {
    /// Reads the escape whose backslash is at `index`, and advances `index` past it. A pair of surrogates is one escape. After
    /// a fault, `index` is the offset at which reading stopped.
    ///
    /// - Throws: `openString`, `unknownEscape`, `badHexDigits`, `halfOfPair`.
    public static func scalar(
        in bytes: UnsafeBufferPointer<UInt8>, at index: inout Int
    ) throws(JSONFault) -> Unicode.Scalar {
        index += 1
        guard index < bytes.count else { throw JSONFault(.openString, at: index) }
        index += 1
        switch bytes[index - 1] {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            var code = try codeUnit(in: bytes, at: &index)
            if code & 0xFC00 == 0xD800, index + 1 < bytes.count, bytes[index] == UInt8(ascii: "\\"),
                bytes[index + 1] == UInt8(ascii: "u")
            {
                index += 2
                let low = try codeUnit(in: bytes, at: &index)
                guard low & 0xFC00 == 0xDC00 else { throw JSONFault(.halfOfPair, at: index) }
                code = 0x1_0000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw JSONFault(.halfOfPair, at: index) }
            return scalar
        default: throw JSONFault(.unknownEscape, at: index - 1)
        }
    }

    private static func codeUnit(
        in bytes: UnsafeBufferPointer<UInt8>, at index: inout Int
    ) throws(JSONFault) -> UInt32 {
        let start = index
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard index < bytes.count, let digit = hexDigit(bytes[index]) else {
                throw JSONFault(.badHexDigits, at: start)
            }
            code = code << 4 | UInt32(digit)
            index += 1
        }
        return code
    }

    /// Returns the value of a hexadecimal digit, in either case, or nil for other bytes.
    public static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
