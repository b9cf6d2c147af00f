internal import JSONText

/// Parsing of strings and keys.
extension JSONParser {
    /// Parses a key and the colon after it. Checks the key unless it is special.
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

    /// Parses the text of a key that need not be valid in the tree, and the colon after it.
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
        // Decoding repairs invalid UTF-8, so the bytes then differ. (The initializer that rejects invalid UTF-8 is slower.)
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
        do throws(JSONFault) {
            let scalar = try JSONEscape.scalar(in: bytes, at: &index)
            text.append(contentsOf: UTF8.encode(scalar).map { Array($0) } ?? [])
        } catch {
            switch error.kind {
            case .unknownEscape: throw self.error(.syntax, "unknown escape in a string", at: start)
            case .badHexDigits: throw syntax("expected four hex digits")
            case .halfOfPair: throw self.error(.syntax, "a lone surrogate is not text", at: start)
            default: throw syntax("the text ends inside a string")
            }
        }
    }
}
