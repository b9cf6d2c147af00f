/// A position in a text. Lines and columns count from 1, columns in bytes.
public struct SourcePosition: Sendable, Equatable {
    public let line: Int
    public let column: Int

    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }
}

/// A JSON value in a file written by people. Keeps the order of keys and the position of each value.
public struct SourceValue: Sendable {
    public indirect enum Kind: Sendable {
        case null
        case bool(Bool)
        /// The number's text.
        case number(String)
        case string(String)
        case array([SourceValue])
        case object([Member])
    }

    public struct Member: Sendable {
        public let key: String
        public let position: SourcePosition
        public let value: SourceValue
    }

    public let kind: Kind
    public let position: SourcePosition

    /// The kind of value, for messages.
    public var kindName: String {
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

/// The reason why a text is not JSON.
public struct SourceTextError: Error {
    public let position: SourcePosition
    public let reason: String
}

/// Reads JSON text strictly (RFC 8259). Equal keys in one object are an error.
public struct SourceText {
    private var scanner: JSONScanner
    /// The offsets at which lines begin, for the positions of values.
    private let lineStarts: [Int]
    private static let maxDepth = 64

    private init(_ bytes: UnsafeBufferPointer<UInt8>) {
        scanner = JSONScanner(bytes)
        lineStarts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }
    }

    /// Reads the single value of a text.
    public static func read(_ bytes: [UInt8]) throws(SourceTextError) -> SourceValue {
        guard String(validating: bytes, as: UTF8.self) != nil else {
            throw SourceTextError(position: SourcePosition(line: 1, column: 1), reason: "this is not UTF-8")
        }
        return try bytes.withUnsafeBufferPointer { (buffer) throws(SourceTextError) in
            var text = SourceText(buffer)
            let value = try text.value(0)
            text.scanner.skipSpace()
            if !text.scanner.isAtEnd { throw text.error("there is more text after the value") }
            return value
        }
    }

    private func position(of offset: Int) -> SourcePosition {
        // The last line that begins at or before the offset.
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return SourcePosition(line: low + 1, column: offset - lineStarts[low] + 1)
    }

    private func error(_ reason: String) -> SourceTextError {
        SourceTextError(position: position(of: scanner.index), reason: reason)
    }

    /// Runs a step of the scanner, and converts its fault to a message for authors of definitions.
    private mutating func step<Result>(
        in container: String = "", _ body: (inout JSONScanner) throws(JSONFault) -> Result
    ) throws(SourceTextError) -> Result {
        do { return try body(&scanner) } catch {
            let reason =
                switch error.kind {
                case .noValue: "unexpected character where a value should be"
                case .noName: "expected a key in double quotes"
                case .noColon: "expected : after a key"
                case .noSeparator: container
                case .noFirstDigit, .leadingZero: "this is not a number"
                case .noDigit: "expected a digit"
                case .openString: "the text ends inside a string"
                case .controlCharacter: "a control character in a string"
                case .unknownEscape: "unknown escape in a string"
                case .badHexDigits: "expected four hexadecimal digits"
                case .halfOfPair: "half of a surrogate pair"
                }
            throw SourceTextError(position: position(of: error.offset), reason: reason)
        }
    }

    private mutating func value(_ depth: Int) throws(SourceTextError) -> SourceValue {
        scanner.skipSpace()
        guard depth <= Self.maxDepth else { throw error("the text is more than \(Self.maxDepth) levels deep") }
        let position = position(of: scanner.index)
        guard let first = scanner.peek else { throw error("the text ends where a value should be") }
        let kind: SourceValue.Kind
        switch first {
        case UInt8(ascii: "{"): kind = .object(try members(depth))
        case UInt8(ascii: "["): kind = .array(try elements(depth))
        case UInt8(ascii: "\""): kind = .string(try step { (scanner) throws(JSONFault) in try scanner.string() })
        case UInt8(ascii: "-"), 0x30...0x39:
            let range = try step { (scanner) throws(JSONFault) in try scanner.number().range }
            kind = .number(String(decoding: scanner.bytes[range], as: UTF8.self))
        default:
            if scanner.take("true") {
                kind = .bool(true)
            } else if scanner.take("false") {
                kind = .bool(false)
            } else if scanner.take("null") {
                kind = .null
            } else {
                throw error("unexpected character where a value should be")
            }
        }
        return SourceValue(kind: kind, position: position)
    }

    private mutating func members(_ depth: Int) throws(SourceTextError) -> [SourceValue.Member] {
        var members: [SourceValue.Member] = []
        guard scanner.enter(closing: UInt8(ascii: "}")) else { return members }
        var seen: Set<String> = []
        var hasNext = true
        while hasNext {
            scanner.skipSpace()
            let position = position(of: scanner.index)
            let key = try step { (scanner) throws(JSONFault) in try scanner.name() }
            guard seen.insert(key).inserted else {
                throw SourceTextError(position: position, reason: "\"\(key)\" comes twice in one object")
            }
            try step { (scanner) throws(JSONFault) in try scanner.colon() }
            members.append(.init(key: key, position: position, value: try value(depth + 1)))
            hasNext = try step(in: "expected , or } in an object") { (scanner) throws(JSONFault) in
                try scanner.hasNext(closing: UInt8(ascii: "}"))
            }
        }
        return members
    }

    private mutating func elements(_ depth: Int) throws(SourceTextError) -> [SourceValue] {
        var elements: [SourceValue] = []
        guard scanner.enter(closing: UInt8(ascii: "]")) else { return elements }
        var hasNext = true
        while hasNext {
            elements.append(try value(depth + 1))
            hasNext = try step(in: "expected , or ] in an array") { (scanner) throws(JSONFault) in
                try scanner.hasNext(closing: UInt8(ascii: "]"))
            }
        }
        return elements
    }
}
