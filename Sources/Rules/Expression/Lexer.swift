internal import JSONText

/// Splits a rule expression into tokens: JavaScript's, as far as rules may use them (reference: security-rules 2).
///
/// A slash is always a mark here. Only the parser knows whether an operand must follow, and then calls `regex()`.
struct Lexer {
    let bytes: [UInt8]
    private(set) var index = 0
    /// The offset of the last token.
    private(set) var start = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private func byte(at offset: Int) -> UInt8? { index + offset < bytes.count ? bytes[index + offset] : nil }

    mutating func next() throws(TextError) -> Token {
        try skipSpace()
        start = index
        guard let byte = peek else { return .end }
        switch byte {
        case 0x30...0x39: return .number(try number())
        case UInt8(ascii: "."):
            if let digit = self.byte(at: 1), digit &- 0x30 <= 9 { return .number(try number()) }
            index += 1
            return .mark(.dot)
        case UInt8(ascii: "'"), UInt8(ascii: "\""): return .string(try string(quote: byte))
        case _ where Self.isIdentifierByte(byte): return .identifier(identifier())
        default: return .mark(try mark(byte))
        }
    }

    // MARK: Marks

    private mutating func mark(_ byte: UInt8) throws(TextError) -> Token.Mark {
        for length in [3, 2, 1] where index + length <= bytes.count {
            let text = bytes[index..<(index + length)]
            if let mark = Token.Mark(rawValue: String(decoding: text, as: UTF8.self)) {
                // `--` is a decrement in JavaScript, which rules do not have.
                if mark == .minus, self.byte(at: 1) == byte { throw error("syntax error") }
                index += length
                return mark
            }
        }
        throw error("illegal character")
    }

    static func isIdentifierByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...: true
        default: false
        }
    }

    private mutating func identifier() -> String {
        while let byte = peek, Self.isIdentifierByte(byte), wideSpace == nil { index += 1 }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    /// The number of bytes of a non-ASCII space that is next, or nil. Text from web pages often contains no-break spaces.
    private var wideSpace: Int? {
        switch (peek, byte(at: 1), byte(at: 2)) {
        case (0xC2, 0xA0, _): 2
        case (0xEF, 0xBB, 0xBF), (0xE2, 0x80, 0xA8), (0xE2, 0x80, 0xA9): 3
        default: nil
        }
    }

    private mutating func skipSpace() throws(TextError) {
        while let byte = peek {
            switch byte {
            case 0x20, 0x09...0x0D: index += 1
            case 0x80... where wideSpace != nil: index += wideSpace ?? 0
            case UInt8(ascii: "/") where self.byte(at: 1) == UInt8(ascii: "/"):
                while let byte = peek, byte != 0x0A { index += 1 }
            case UInt8(ascii: "/") where self.byte(at: 1) == UInt8(ascii: "*"):
                start = index
                index += 2
                while peek != UInt8(ascii: "*") || self.byte(at: 1) != UInt8(ascii: "/") {
                    guard peek != nil else { throw error("unterminated comment") }
                    index += 1
                }
                index += 2
            default: return
            }
        }
    }

    // MARK: Numbers

    private mutating func number() throws(TextError) -> Double {
        if peek == UInt8(ascii: "0"), let next = byte(at: 1) {
            if next | 0x20 == UInt8(ascii: "x") { return try hexadecimal() }
            // Octal in old JavaScript and an error in new versions, so probably a mistake.
            if next &- 0x30 <= 9 { throw error("a number may not begin with 0") }
        }
        skipDigits()
        if peek == UInt8(ascii: ".") {
            index += 1
            skipDigits()
        }
        if let byte = peek, byte | 0x20 == UInt8(ascii: "e") {
            index += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { index += 1 }
            let digits = index
            skipDigits()
            if index == digits { throw error("missing exponent") }
        }
        try endNumber()
        var text = String(decoding: bytes[start..<index], as: UTF8.self)
        if text.hasPrefix(".") { text = "0" + text }
        if let point = text.utf8.firstIndex(of: UInt8(ascii: ".")) {
            let after = text.utf8.index(after: point)
            if after == text.endIndex || text.utf8[after] &- 0x30 > 9 { text.insert("0", at: after) }
        }
        guard let value = Double(text) else { throw error("syntax error") }
        return value
    }

    private mutating func hexadecimal() throws(TextError) -> Double {
        index += 2
        var value = 0.0
        let digits = index
        while let byte = peek, let digit = JSONEscape.hexDigit(byte) {
            value = value * 16 + Double(digit)
            index += 1
        }
        if index == digits { throw error("syntax error") }
        try endNumber()
        return value
    }

    private mutating func skipDigits() {
        while let byte = peek, byte &- 0x30 <= 9 { index += 1 }
    }

    private func endNumber() throws(TextError) {
        if let byte = peek, Self.isIdentifierByte(byte) { throw error("identifier starts immediately after number") }
    }

    // MARK: Strings

    private mutating func string(quote: UInt8) throws(TextError) -> String {
        index += 1
        var text: [UInt8] = []
        while let byte = peek {
            switch byte {
            case quote:
                index += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0x0A, 0x0D: throw error("unterminated string literal")
            default:
                text.append(byte)
                index += 1
            }
        }
        throw error("unterminated string literal")
    }

    private mutating func escape(into text: inout [UInt8]) throws(TextError) {
        index += 1
        guard let byte = peek else { throw error("unterminated string literal") }
        index += 1
        switch byte {
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "v"): text.append(0x0B)
        case UInt8(ascii: "x"): try append(try hex(digits: 2), to: &text)
        case UInt8(ascii: "u"):
            var code = try hex(digits: 4)
            if (0xD800...0xDBFF).contains(code), peek == UInt8(ascii: "\\"), self.byte(at: 1) == UInt8(ascii: "u") {
                index += 2
                let low = try hex(digits: 4)
                guard (0xDC00...0xDFFF).contains(low) else { throw error("a lone surrogate is not text") }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            try append(code, to: &text)
        case UInt8(ascii: "0"):
            if let digit = peek, digit &- 0x30 <= 9 { throw error("octal escapes are not supported") }
            text.append(0)
        case UInt8(ascii: "1")...UInt8(ascii: "9"): throw error("octal escapes are not supported")
        case 0x0A, 0x0D: throw error("unterminated string literal")
        default: text.append(byte)
        }
    }

    private mutating func hex(digits: Int) throws(TextError) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<digits {
            guard let byte = peek, let digit = JSONEscape.hexDigit(byte) else { throw error("malformed escape") }
            code = code << 4 | UInt32(digit)
            index += 1
        }
        return code
    }

    private func append(_ code: UInt32, to text: inout [UInt8]) throws(TextError) {
        guard let scalar = Unicode.Scalar(code) else { throw error("a lone surrogate is not text") }
        text.append(contentsOf: Array(String(Character(scalar)).utf8))
    }

    // MARK: Regular expressions

    /// Reads the regular expression that begins with the slash token just returned.
    mutating func regex() throws(TextError) -> RegexLiteral {
        index = start + 1
        var isInClass = false
        while let byte = peek, byte != 0x0A, byte != 0x0D {
            switch byte {
            case UInt8(ascii: "\\"):
                index += 1
                // The escaped byte is skipped below, unless it is a line break or missing.
                guard let escaped = peek, escaped != 0x0A, escaped != 0x0D else {
                    throw error("unterminated regular expression literal")
                }
            case UInt8(ascii: "["): isInClass = true
            case UInt8(ascii: "]"): isInClass = false
            case UInt8(ascii: "/") where !isInClass:
                let pattern = String(decoding: bytes[(start + 1)..<index], as: UTF8.self)
                index += 1
                return RegexLiteral(pattern: pattern, ignoresCase: try flags())
            default: break
            }
            index += 1
        }
        throw error("unterminated regular expression literal")
    }

    private mutating func flags() throws(TextError) -> Bool {
        let begin = index
        while let byte = peek, Self.isIdentifierByte(byte) { index += 1 }
        if index == begin { return false }
        guard index == begin + 1, bytes[begin] == UInt8(ascii: "i") else {
            throw error("regular expressions do not support flags other than i")
        }
        return true
    }

    func error(_ message: String) -> TextError { TextError(offset: start, message: message) }
}

/// A token of a rule expression.
enum Token: Equatable {
    case number(Double)
    case string(String)
    case identifier(String)
    case mark(Mark)
    case end

    enum Mark: String {
        case openParenthesis = "("
        case closeParenthesis = ")"
        case openBracket = "["
        case closeBracket = "]"
        case comma = ","
        case dot = "."
        case question = "?"
        case colon = ":"
        case not = "!"
        case minus = "-"
        case plus = "+"
        case times = "*"
        case slash = "/"
        case percent = "%"
        case equal = "=="
        case identical = "==="
        case unequal = "!="
        case notIdentical = "!=="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
        case and = "&&"
        case or = "||"
        case assign = "="
    }
}
