internal import JSONText

/// Reads the tolerant JSON of rule files: with comments between tokens, trailing commas, and raw line breaks in strings.
struct TextReader {
    let bytes: [UInt8]
    private(set) var index = 0
    /// The number of open nodes, which is kept here so that a parser of nodes needs no counter of its own.
    var nesting = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func advance(_ count: Int = 1) { index += count }

    func error(_ message: String, at offset: Int? = nil) -> TextError {
        TextError(offset: offset ?? index, message: message)
    }

    /// Returns the error for a missing part. At the end of the text, the error is that the text is incomplete.
    private func expected(_ what: String) -> TextError {
        error(index < bytes.count ? "Expected \(what)." : "Parse error.")
    }

    /// Returns the error for a missing object: there is another value, or the text is not JSON.
    func noObject() -> TextError {
        switch peek {
        case UInt8(ascii: "\""), UInt8(ascii: "["): return expected("'{'")
        default:
            var reader = self
            return (try? reader.scalar()) == nil ? error("Parse error.") : expected("'{'")
        }
    }

    /// Skips white space and comments.
    mutating func skipSpace() throws(TextError) {
        while let byte = peek {
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D: index += 1
            case UInt8(ascii: "/"): try skipComment()
            default: return
            }
        }
    }

    private mutating func skipComment() throws(TextError) {
        let start = index
        let next = index + 1 < bytes.count ? bytes[index + 1] : 0
        index += 2
        if next == UInt8(ascii: "/") {
            while let byte = peek, byte != 0x0A { index += 1 }
        } else if next == UInt8(ascii: "*") {
            while index + 1 < bytes.count {
                if bytes[index] == UInt8(ascii: "*"), bytes[index + 1] == UInt8(ascii: "/") {
                    index += 2
                    return
                }
                index += 1
            }
            throw error("Parse error.", at: start)
        } else {
            throw error("Parse error.", at: start)
        }
    }

    /// Reads a string without its escapes. The quote must be next.
    mutating func string() throws(TextError) -> ExpressionText {
        let quote = index
        index += 1
        let start = index
        var text: [UInt8] = []
        var offsets: [Int32]?
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                index += 1
                offsets?.append(Int32(truncatingIfNeeded: index - 1))
                return ExpressionText(bytes: text, start: start, offsets: offsets)
            case UInt8(ascii: "\\"):
                if offsets == nil { offsets = (start..<index).map { Int32(truncatingIfNeeded: $0) } }
                let escape = index
                let scalar = try escapedScalar()
                for unit in Array(String(scalar).utf8) {
                    text.append(unit)
                    offsets?.append(Int32(truncatingIfNeeded: escape))
                }
            default:
                text.append(byte)
                offsets?.append(Int32(truncatingIfNeeded: index))
                index += 1
            }
        }
        throw error("Parse error.", at: quote)
    }

    private mutating func escapedScalar() throws(TextError) -> Unicode.Scalar {
        let start = index
        var end = index
        defer { index = end }
        do throws(JSONFault) {
            return try bytes.withUnsafeBufferPointer { (buffer) throws(JSONFault) in
                try JSONEscape.scalar(in: buffer, at: &end)
            }
        } catch {
            switch error.kind {
            case .badHexDigits, .halfOfPair: throw self.error("Invalid escape: '\\u'", at: start)
            case .unknownEscape:
                // The character may take several bytes.
                var last = error.offset + 1
                while last < bytes.count, bytes[last] & 0xC0 == 0x80 { last += 1 }
                let character = String(decoding: bytes[error.offset..<last], as: UTF8.self)
                throw self.error("Invalid escape: '\\\(character)'", at: start)
            default: throw self.error("Parse error.", at: start)
            }
        }
    }

    /// Reads the bytes of a number, `true`, `false` or `null`. Any other word is not JSON.
    mutating func scalar() throws(TextError) -> ArraySlice<UInt8> {
        let start = index
        let length = bytes[start...].withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer)
            if scanner.take("true") || scanner.take("false") || scanner.take("null") { return scanner.index }
            return (try? scanner.number())?.range.count ?? 0
        }
        index += length
        // A longer word may begin like one of these.
        guard length > 0, !(peek.map(isWordByte) ?? false) else { throw error("Parse error.", at: start) }
        return bytes[start..<index]
    }

    private func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."): true
        default: false
        }
    }

    /// Skips one value of any kind. `level` limits the nesting.
    mutating func skipValue(level: Int = 0) throws(TextError) {
        guard level < Self.maxNesting else { throw error("The document is nested too deeply.") }
        switch peek {
        case UInt8(ascii: "\""): _ = try string()
        case UInt8(ascii: "{"):
            try members { (reader, _, _) throws(TextError) in try reader.skipValue(level: level + 1) }
        case UInt8(ascii: "["):
            try elements { (reader) throws(TextError) in try reader.skipValue(level: level + 1) }
        default: _ = try scalar()
        }
    }

    /// Walks an object, whose brace must be next. Calls `body` with the reader at each value, which `body` must consume.
    mutating func members(
        _ body: (inout TextReader, _ key: String, _ keyOffset: Int) throws(TextError) -> Void
    ) throws(TextError) {
        index += 1
        try skipSpace()
        if peek == UInt8(ascii: ",") { throw error("Unexpected ','.") }
        while peek != UInt8(ascii: "}") {
            guard peek == UInt8(ascii: "\"") else { throw expected("'\"'") }
            let keyOffset = index
            let key = try string().string
            try skipSpace()
            guard peek == UInt8(ascii: ":") else { throw expected("':'") }
            index += 1
            try skipSpace()
            try body(&self, key, keyOffset)
            try skipSpace()
            if peek == UInt8(ascii: ",") {
                index += 1
                try skipSpace()
            } else if peek != UInt8(ascii: "}") {
                throw expected("',' or '}'")
            }
        }
        index += 1
    }

    /// Walks an array, whose bracket must be next. Calls `body` with the reader at each element, which `body` must consume.
    mutating func elements(_ body: (inout TextReader) throws(TextError) -> Void) throws(TextError) {
        index += 1
        try skipSpace()
        if peek == UInt8(ascii: ",") { throw error("Unexpected ','.") }
        while peek != UInt8(ascii: "]") {
            try body(&self)
            try skipSpace()
            if peek == UInt8(ascii: ",") {
                index += 1
                try skipSpace()
            } else if peek != UInt8(ascii: "]") {
                throw expected("',' or ']'")
            }
        }
        index += 1
    }

    /// The maximum nesting of a document, far beyond the 32 levels of data.
    static let maxNesting = 100
}
