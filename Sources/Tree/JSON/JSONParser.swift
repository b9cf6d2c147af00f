/// Parses JSON text directly into the tree, with the database's semantics: `.value`, `.priority` and `.sv`, arrays as children
/// with index keys, nulls and empty objects as no value (reference: rtdb-protocol 5, 6.1, 6.4).
///
/// Strict (RFC 8259), UTF-8 only; lone surrogates are rejected. The last of equal keys wins. Linear in time; recursion is
/// bounded by `maxDepth`.
public struct JSONParser: ~Copyable {
    let bytes: UnsafeBufferPointer<UInt8>
    let maxDepth: Int
    var index = 0
    var pending = EntryStack()
    var cache: KeyCache?
    /// Whether a server value was found. Only then must the result be resolved.
    var hasServerValue = false

    /// Shorter texts repeat too few keys to justify a cache.
    private static let leastBytesForCache = 16_384

    /// A parsed value. `hasServerValue` is true if the value must be resolved before it is stored.
    public struct Parsed: Sendable, Equatable {
        public let node: Node
        public let hasServerValue: Bool

        public init(node: Node, hasServerValue: Bool) {
            self.node = node
            self.hasServerValue = hasServerValue
        }
    }

    /// One child of an update: a path below the update's own, and its value.
    public struct ParsedChange: Sendable {
        public let path: Path
        public let node: Node
    }

    private init(_ bytes: UnsafeBufferPointer<UInt8>, maxDepth: Int) {
        self.bytes = bytes
        self.maxDepth = maxDepth
        if bytes.count >= Self.leastBytesForCache { cache = KeyCache() }
    }

    /// Parses one value. `maxDepth` is the maximum number of levels of keys below the value.
    public static func parse(_ bytes: [UInt8], maxDepth: Int = KeyRules.maxDepth) throws(JSONError) -> Parsed {
        try withParser(bytes, maxDepth) { (parser) throws(JSONError) in
            let node = try parser.value(level: 0)
            try parser.end()
            return Parsed(node: node, hasServerValue: parser.hasServerValue)
        }
    }

    /// Parses text in memory of another owner, such as a field of a database row.
    public static func parse(
        _ buffer: UnsafeRawBufferPointer, maxDepth: Int = KeyRules.maxDepth
    ) throws(JSONError) -> Node {
        var parser = JSONParser(buffer.assumingMemoryBound(to: UInt8.self), maxDepth: maxDepth)
        let node = try parser.value(level: 0)
        try parser.end()
        return node
    }

    /// Parses a string. For bytes, see `parse(_:maxDepth:)`.
    public static func parse(_ text: String, maxDepth: Int = KeyRules.maxDepth) throws(JSONError) -> Node {
        try parse(Array(text.utf8), maxDepth: maxDepth).node
    }

    /// Parses the body of an update: an object whose keys may be paths. Returns nil for `null`, which stands for a removal.
    public static func parseUpdate(
        _ bytes: [UInt8], maxDepth: Int = KeyRules.maxDepth
    ) throws(JSONError) -> (changes: [ParsedChange], hasServerValue: Bool)? {
        try withParser(bytes, maxDepth) { (parser) throws(JSONError) in
            parser.skipSpace()
            if parser.peek == UInt8(ascii: "n") {
                _ = try parser.value(level: 0)
                try parser.end()
                return nil
            }
            let changes = try parser.updateObject(mayNameRoot: false)
            try parser.end()
            return (changes, parser.hasServerValue)
        }
    }

    /// Parses the changes of one entry in the log's format: an object of absolute paths, in order.
    public static func parseChanges(_ bytes: [UInt8]) throws(JSONError) -> [ParsedChange] {
        try withParser(bytes, KeyRules.maxDepth) { (parser) throws(JSONError) in
            parser.skipSpace()
            let changes = try parser.updateObject(mayNameRoot: true)
            try parser.end()
            return changes
        }
    }

    private static func withParser<Result>(
        _ bytes: [UInt8], _ maxDepth: Int, _ body: (inout JSONParser) throws(JSONError) -> Result
    ) throws(JSONError) -> Result {
        try bytes.withUnsafeBufferPointer { (buffer) throws(JSONError) in
            var parser = JSONParser(buffer, maxDepth: maxDepth)
            return try body(&parser)
        }
    }

    // MARK: Values

    mutating func value(level: Int) throws(JSONError) -> Node {
        skipSpace()
        guard index < bytes.count else { throw syntax("the text ends where a value should be") }
        switch bytes[index] {
        case UInt8(ascii: "\""): return .string(try stringValue())
        case UInt8(ascii: "-"), 0x30...0x39: return try number()
        case UInt8(ascii: "{"): return try object(level: level)
        case UInt8(ascii: "["): return try array(level: level)
        case UInt8(ascii: "t"):
            try literal("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try literal("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try literal("null")
            return .null
        default: throw syntax("unexpected character where a value should be")
        }
    }

    private mutating func literal(_ text: StaticString) throws(JSONError) {
        let count = text.utf8CodeUnitCount
        guard index + count <= bytes.count else { throw syntax("unexpected word; expected \(text)") }
        for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] {
            throw syntax("unexpected word; expected \(text)")
        }
        index += count
    }

    mutating func array(level: Int) throws(JSONError) -> Node {
        try checkLevel(level)
        let base = pending.count
        index += 1
        skipSpace()
        if peek == UInt8(ascii: "]") {
            index += 1
            return .null
        }
        var position = 0
        while true {
            skipSpace()
            let start = index
            let element = try value(level: level + 1)
            if !element.isNull {
                guard level < maxDepth else { throw tooDeep(at: start) }
                pending.append(.init(key: Key(String(position)), node: element))
            }
            position += 1
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "]"):
                index += 1
                return closeBranch(from: base, isSorted: true, priority: .null)
            default: throw syntax("expected , or ] in an array")
            }
        }
    }

    // MARK: Text

    var peek: UInt8? {
        @inline(__always) get { index < bytes.count ? bytes[index] : nil }
    }

    @inline(__always)
    mutating func skipSpace() {
        if index < bytes.count, bytes[index] > 0x20 { return }
        skipManySpaces()
    }

    private mutating func skipManySpaces() {
        while index < bytes.count {
            switch bytes[index] {
            case 0x20, 0x0A, 0x0D, 0x09: index += 1
            default: return
            }
        }
    }

    mutating func end() throws(JSONError) {
        skipSpace()
        if index < bytes.count { throw syntax("unexpected text after the value") }
    }

    func checkLevel(_ level: Int) throws(JSONError) {
        // Two more than the depth, because the innermost level may still contain `.sv` objects and empty containers.
        guard level <= maxDepth + 2 else { throw tooDeep(at: index) }
    }

    func syntax(_ reason: String) -> JSONError { error(.syntax, reason, at: index) }

    func tooDeep(at offset: Int) -> JSONError {
        error(.value, "the data would be more than \(KeyRules.maxDepth) levels deep", at: offset)
    }

    func tooLong(at offset: Int) -> JSONError {
        error(.value, "the string has more than \(KeyRules.maxStringBytes) bytes", at: offset)
    }

    func unknownServerValue(at offset: Int) -> JSONError {
        error(.value, "the server value is neither \"timestamp\" nor {\"increment\": number}", at: offset)
    }

    func error(_ kind: JSONError.Kind, _ reason: String, at offset: Int) -> JSONError {
        JSONError(kind, reason, at: offset, in: bytes)
    }
}

/// The reason why a text can't be stored as data, with its position. Lines and columns count from 1, columns in bytes.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: Equatable, Sendable {
        /// Not JSON, or not UTF-8.
        case syntax
        /// A key that the database can't store.
        case key
        /// Well-formed, but beyond a limit or invalid: depth, string size, number range, server value, priority.
        case value
    }

    public let kind: Kind
    public let reason: String
    public let line: Int
    public let column: Int

    init(_ kind: Kind, _ reason: String, at offset: Int, in bytes: UnsafeBufferPointer<UInt8>) {
        self.kind = kind
        self.reason = reason
        var line = 1
        var lineStart = 0
        for index in 0..<min(offset, bytes.count) where bytes[index] == 0x0A {
            line += 1
            lineStart = index + 1
        }
        self.line = line
        column = offset - lineStart + 1
    }

    public var description: String { "Line \(line), column \(column): \(reason)" }
}

/// Estimates the memory of the tree of a JSON text, before the tree is created.
public enum JSONSize {
    /// A branch with one child.
    private static let bytesPerBranch = 240
    /// Another child with a key.
    private static let bytesPerChild = 64

    /// Estimates the size in one pass over the text. Brackets and commas in strings count, too, so the number of nodes is never
    /// underestimated. The nodes' texts are no larger than the JSON text.
    public static func estimate(_ text: [UInt8]) -> Int {
        text.withUnsafeBufferPointer { bytes in
            var branches = 0
            var children = 0
            for byte in bytes {
                if byte == UInt8(ascii: ",") { children &+= 1 }
                if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") { branches &+= 1 }
            }
            return branches * bytesPerBranch + children * bytesPerChild
        }
    }
}
