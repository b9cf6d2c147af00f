/// Strings and keys.
extension JSONParser {
    /// A key and the colon after it, checked unless it is special.
    mutating func key() throws(JSONError) -> Key {
        guard peek == UInt8(ascii: "\"") else { throw syntax("expected a key in double quotes") }
        let start = index
        var seen: UInt64 = 0
        let end = ByteScan.endOfPlainText(bytes, from: start + 1, seen: &seen)
        let key: Key
        if end < bytes.count, bytes[end] == UInt8(ascii: "\"") {
            let content = UnsafeBufferPointer(rebasing: bytes[(start + 1)..<end])
            index = end + 1
            if cache != nil, KeyCache.isWorthKeeping(content) {
                key = try cachedKey(content, seen, at: start)
            } else {
                key = try newKey(content, seen, at: start)
            }
        } else {
            key = Key(try string(isKey: true))
            if !key.isSpecial, let violation = KeyRules.violation(in: key) {
                throw error(.key, "the key \(violation.reason)", at: start)
            }
        }
        try colon()
        return key
    }

    private mutating func cachedKey(
        _ content: UnsafeBufferPointer<UInt8>, _ seen: UInt64, at start: Int
    ) throws(JSONError) -> Key {
        guard var kept = cache.take() else { return try newKey(content, seen, at: start) }
        let key = try kept.key(of: content) { () throws(JSONError) in try newKey(content, seen, at: start) }
        cache = consume kept
        return key
    }

    private func newKey(
        _ content: UnsafeBufferPointer<UInt8>, _ seen: UInt64, at start: Int
    ) throws(JSONError) -> Key {
        if content.first != UInt8(ascii: "."), let violation = KeyRules.violation(in: content) {
            throw error(.key, "the key \(violation.reason)", at: start)
        }
        return Key(try text(content, isASCII: ByteScan.isASCII(seen), at: start))
    }

    /// The text of a key that need not be one of the tree's, and the colon after it.
    mutating func keyString() throws(JSONError) -> String {
        guard peek == UInt8(ascii: "\"") else { throw syntax("expected a key in double quotes") }
        let text = try string(isKey: true)
        try colon()
        return text
    }

    private mutating func colon() throws(JSONError) {
        skipSpace()
        guard peek == UInt8(ascii: ":") else { throw syntax("expected : after a key") }
        index += 1
    }

    mutating func stringValue() throws(JSONError) -> String { try string(isKey: false) }

    private mutating func string(isKey: Bool) throws(JSONError) -> String {
        let start = index
        var seen: UInt64 = 0
        index = ByteScan.endOfPlainText(bytes, from: start + 1, seen: &seen)
        guard index < bytes.count else { throw syntax("the text ends inside a string") }
        switch bytes[index] {
        case UInt8(ascii: "\""):
            let content = UnsafeBufferPointer(rebasing: bytes[(start + 1)..<index])
            index += 1
            if !isKey, content.count > KeyRules.maxStringBytes { throw tooLong(at: start) }
            return try text(content, isASCII: ByteScan.isASCII(seen), at: start)
        case UInt8(ascii: "\\"): return try escapedString(from: start + 1, isKey: isKey, at: start)
        default: throw syntax("a control character in a string must be escaped")
        }
    }

    private func text(
        _ content: UnsafeBufferPointer<UInt8>, isASCII: Bool, at start: Int
    ) throws(JSONError) -> String {
        let text = String(decoding: content, as: UTF8.self)
        // Decoding repairs what is not UTF-8; then the bytes are others. (The initialiser that refuses it is slower.)
        if !isASCII, !text.hasSameBytes(as: content) {
            throw error(.syntax, "a string is not valid UTF-8", at: start)
        }
        return text
    }

    private mutating func escapedString(from start: Int, isKey: Bool, at quote: Int) throws(JSONError) -> String {
        var unescaped = [UInt8](bytes[start..<index])
        while true {
            var seen: UInt64 = 0
            let end = ByteScan.endOfPlainText(bytes, from: index, seen: &seen)
            unescaped.append(contentsOf: bytes[index..<end])
            index = end
            guard index < bytes.count else { throw syntax("the text ends inside a string") }
            switch bytes[index] {
            case UInt8(ascii: "\""):
                index += 1
                if !isKey, unescaped.count > KeyRules.maxStringBytes { throw tooLong(at: quote) }
                return try unescaped.withUnsafeBufferPointer { (content) throws(JSONError) in
                    try text(content, isASCII: false, at: quote)
                }
            case UInt8(ascii: "\\"): try escape(into: &unescaped)
            default: throw syntax("a control character in a string must be escaped")
            }
        }
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONError) {
        let start = index
        index += 1
        guard let byte = peek else { throw syntax("the text ends inside a string") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"):
            var code = try hexDigits()
            if (0xD800...0xDBFF).contains(code) {
                guard peek == UInt8(ascii: "\\"), index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "u") else {
                    throw error(.syntax, "a lone surrogate is not text", at: start)
                }
                index += 2
                let low = try hexDigits()
                guard (0xDC00...0xDFFF).contains(low) else {
                    throw error(.syntax, "a lone surrogate is not text", at: start)
                }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = UnicodeScalar(code) else {
                throw error(.syntax, "a lone surrogate is not text", at: start)
            }
            text.append(contentsOf: UTF8.encode(scalar).map { Array($0) } ?? [])
        default: throw error(.syntax, "unknown escape in a string", at: start)
        }
    }

    private mutating func hexDigits() throws(JSONError) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Self.hexValue(byte) else { throw syntax("expected four hex digits") }
            code = code << 4 | UInt32(digit)
            index += 1
        }
        return code
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
