/// Parses JSON text straight into the tree, with the database's own meaning: `.value`, `.priority` and `.sv`, arrays as
/// children with index keys, nulls and empty objects as nothing (reference: rtdb-protocol 5, 6.1, 6.4).
///
/// Strict (RFC 8259), UTF-8 only, lone surrogates refused. Of equal keys the last wins. Linear in time; recursion is
/// bounded by `maxDepth`.
public struct JSONParser {
    let bytes: UnsafeBufferPointer<UInt8>
    private let maxDepth: Int
    private var index = 0
    /// Finished children of all objects that are still open; each object owns the tail from where it began.
    private var pending = ContiguousArray<ChildMap.Entry>()
    /// True once a server value was met: only then must the result be resolved.
    private var hasServerValue = false

    /// A parsed value. `hasServerValue` tells whether anything in it must be resolved before it is stored.
    public struct Parsed: Sendable {
        public let node: Node
        public let hasServerValue: Bool
    }

    /// One child of an update: a path below the update's own, and its value.
    public struct ParsedChange: Sendable {
        public let path: Path
        public let node: Node
    }

    private init(_ bytes: UnsafeBufferPointer<UInt8>, maxDepth: Int) {
        self.bytes = bytes
        self.maxDepth = maxDepth
    }

    /// Parses one value. `maxDepth`: how many levels of keys the value may have below itself.
    public static func parse(_ bytes: [UInt8], maxDepth: Int = KeyRules.maxDepth) throws(JSONError) -> Parsed {
        try withParser(bytes, maxDepth) { (parser) throws(JSONError) in
            let node = try parser.value(level: 0)
            try parser.end()
            return Parsed(node: node, hasServerValue: parser.hasServerValue)
        }
    }

    /// Parses text that somebody else owns, such as a field of a database row.
    public static func parse(
        _ buffer: UnsafeRawBufferPointer, maxDepth: Int = KeyRules.maxDepth
    ) throws(JSONError) -> Node {
        var parser = JSONParser(buffer.assumingMemoryBound(to: UInt8.self), maxDepth: maxDepth)
        let node = try parser.value(level: 0)
        try parser.end()
        return node
    }

    public static func parse(_ text: String, maxDepth: Int = KeyRules.maxDepth) throws(JSONError) -> Node {
        try parse(Array(text.utf8), maxDepth: maxDepth).node
    }

    /// Parses the body of an update: an object whose keys may be paths. Nil for `null`, which means to remove.
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

    /// Parses one entry's changes as the log holds them: an object of absolute paths, in order.
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

    private mutating func value(level: Int) throws(JSONError) -> Node {
        skipSpace()
        guard let byte = peek else { throw syntax("the text ends where a value should be") }
        switch byte {
        case UInt8(ascii: "{"): return try object(level: level)
        case UInt8(ascii: "["): return try array(level: level)
        case UInt8(ascii: "\""): return .string(try string(isKey: false))
        case UInt8(ascii: "t"):
            try literal("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try literal("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try literal("null")
            return .null
        case UInt8(ascii: "-"), 0x30...0x39: return try number()
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

    private mutating func array(level: Int) throws(JSONError) -> Node {
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
                return closeBranch(from: base, priority: .null)
            default: throw syntax("expected , or ] in an array")
            }
        }
    }

    /// What an object's dotted keys said.
    private struct Special {
        var value: Node?
        var priority: Node = .null
        var serverValue: ServerValue?
        var hasAny: Bool { value != nil || serverValue != nil }
    }

    private mutating func object(level: Int) throws(JSONError) -> Node {
        try checkLevel(level)
        let base = pending.count
        let start = index
        var special = Special()
        index += 1
        skipSpace()
        if peek == UInt8(ascii: "}") {
            index += 1
            return .null
        }
        while true {
            skipSpace()
            let keyStart = index
            let text = try keyString()
            if text.utf8.first == UInt8(ascii: ".") {
                try self.special(text, at: keyStart, level: level, &special)
            } else {
                if let violation = KeyRules.violation(in: Key(text)) {
                    throw error(.key, "the key \(violation.reason)", at: keyStart)
                }
                let child = try value(level: level + 1)
                if !child.isNull {
                    guard level < maxDepth else { throw tooDeep(at: keyStart) }
                    pending.append(.init(key: Key(text), node: child))
                } else if pending.count > base {
                    // The last of equal keys wins, also when it says null.
                    pending.append(.init(key: Key(text), node: .null))
                }
            }
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "}"):
                index += 1
                return try close(special, from: base, at: start)
            default: throw syntax("expected , or } in an object")
            }
        }
    }

    private mutating func special(
        _ text: String, at start: Int, level: Int, _ special: inout Special
    ) throws(JSONError) {
        switch text {
        case ".priority":
            let priority = try value(level: level + 1)
            switch priority {
            case .null, .int, .double, .string, .serverValue: special.priority = priority
            default: throw error(.value, "a priority must be a number or a string", at: start)
            }
        case ".value":
            skipSpace()
            let isObject = peek == UInt8(ascii: "{")
            let node = try value(level: level + 1).withoutPriority
            let isServerValue = if case .serverValue = node { true } else { false }
            guard !node.isBranch, !isObject || isServerValue || node.isNull else {
                throw error(.value, "a .value must be a string, number or boolean", at: start)
            }
            // Null is no value, as to the SDKs: the object is then what its other keys say.
            special.value = node.isNull ? nil : node
        case ".sv":
            hasServerValue = true
            special.serverValue = try serverValue(at: start)
        default: throw error(.key, "the key contains \".\"", at: start)
        }
    }

    private mutating func close(_ special: Special, from base: Int, at start: Int) throws(JSONError) -> Node {
        guard special.hasAny else { return closeBranch(from: base, priority: special.priority) }
        guard pending.count == base else {
            throw error(.value, "an object with .value or .sv can't have children too", at: start)
        }
        if let serverValue = special.serverValue {
            guard special.value == nil else {
                throw error(.value, "an object can't have both .sv and .value", at: start)
            }
            return Node.serverValue(serverValue).withPriority(special.priority)
        }
        return (special.value ?? .null).withPriority(special.priority)
    }

    private mutating func closeBranch(from base: Int, priority: Node) -> Node {
        guard pending.count > base else { return .null }
        var entries = ContiguousArray(pending[base...])
        pending.removeSubrange(base...)
        return Node(sorting: &entries, priority: priority)
    }

    private mutating func serverValue(at start: Int) throws(JSONError) -> ServerValue {
        skipSpace()
        if peek == UInt8(ascii: "\"") {
            guard try string(isKey: false) == "timestamp" else { throw unknownServerValue(at: start) }
            return ServerValue(.timestamp)
        }
        guard peek == UInt8(ascii: "{") else { throw unknownServerValue(at: start) }
        index += 1
        skipSpace()
        guard try keyString() == "increment" else { throw unknownServerValue(at: start) }
        skipSpace()
        guard let byte = peek, byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte) else {
            throw error(.value, "an increment must be a number", at: start)
        }
        let delta = try number()
        skipSpace()
        guard peek == UInt8(ascii: "}") else { throw unknownServerValue(at: start) }
        index += 1
        return ServerValue(.increment(delta))
    }

    private mutating func updateObject(mayNameRoot: Bool) throws(JSONError) -> [ParsedChange] {
        guard peek == UInt8(ascii: "{") else { throw syntax("expected an object") }
        index += 1
        skipSpace()
        var changes: [ParsedChange] = []
        if peek == UInt8(ascii: "}") {
            index += 1
            return changes
        }
        while true {
            skipSpace()
            let start = index
            let path = Path(splitting: try keyString())
            if path.isRoot, !mayNameRoot { throw error(.key, "the key \(KeyRules.Violation.empty.reason)", at: start) }
            try check(path, at: start)
            let allowed = min(maxDepth, KeyRules.maxDepth) - path.depth
            let node = try value(level: maxDepth - allowed)
            if path.namesPriority {
                switch node {
                case .null, .int, .double, .string, .serverValue: break
                default: throw error(.value, "a priority must be a number or a string", at: start)
                }
            }
            changes.append(ParsedChange(path: path, node: node))
            skipSpace()
            switch peek {
            case UInt8(ascii: ","): index += 1
            case UInt8(ascii: "}"):
                index += 1
                return changes
            default: throw syntax("expected , or } in an object")
            }
        }
    }

    private func check(_ path: Path, at start: Int) throws(JSONError) {
        for (position, key) in path.keys.enumerated() {
            if key == .priority, position == path.depth - 1 { continue }
            if let violation = KeyRules.violation(in: key) {
                throw error(.key, "the key \(violation.reason)", at: start)
            }
        }
        guard path.depth <= maxDepth + (path.namesPriority ? 1 : 0) else { throw tooDeep(at: start) }
    }

    // MARK: Numbers

    /// An integer in 64 bits stays exact; all others are doubles, and an integral double within ±2^53 is that integer.
    private mutating func number() throws(JSONError) -> Node {
        let start = index
        let isNegative = peek == UInt8(ascii: "-")
        if isNegative { index += 1 }
        var mantissa: UInt64 = 0
        var isExact = true
        let digitsStart = index
        while let byte = peek, byte &- 0x30 <= 9 {
            if isExact {
                let (product, overflow) = mantissa.multipliedReportingOverflow(by: 10)
                let (sum, carry) = product.addingReportingOverflow(UInt64(byte &- 0x30))
                if overflow || carry { isExact = false } else { mantissa = sum }
            }
            index += 1
        }
        let digits = index - digitsStart
        guard digits > 0 else { throw syntax("expected a digit") }
        guard digits == 1 || bytes[digitsStart] != 0x30 else { throw error(.syntax, "a number can't begin with 0", at: digitsStart) }
        guard peek == UInt8(ascii: ".") || peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") else {
            if isExact, let value = Int64(exactly: mantissa), value != 0 || !isNegative {
                return .int(isNegative ? -value : value)
            }
            if isExact, isNegative, mantissa == UInt64(Int64.max) + 1 { return .int(.min) }
            return try double(from: start)
        }
        if peek == UInt8(ascii: ".") {
            index += 1
            try digitsRequired()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            index += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { index += 1 }
            try digitsRequired()
        }
        return try double(from: start)
    }

    private mutating func digitsRequired() throws(JSONError) {
        guard let byte = peek, byte &- 0x30 <= 9 else { throw syntax("expected a digit") }
        while let byte = peek, byte &- 0x30 <= 9 { index += 1 }
    }

    private func double(from start: Int) throws(JSONError) -> Node {
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        guard let value = Double(text), value.isFinite else {
            throw error(.value, "the number is out of range", at: start)
        }
        return Node(number: value)
    }

    // MARK: Strings

    private mutating func keyString() throws(JSONError) -> String {
        guard peek == UInt8(ascii: "\"") else { throw syntax("expected a key in double quotes") }
        let text = try string(isKey: true)
        skipSpace()
        guard peek == UInt8(ascii: ":") else { throw syntax("expected : after a key") }
        index += 1
        return text
    }

    private mutating func string(isKey: Bool) throws(JSONError) -> String {
        let start = index
        index += 1
        let contentStart = index
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") {
                defer { index += 1 }
                return try text(contentStart..<index, isKey: isKey, at: start)
            }
            if byte == UInt8(ascii: "\\") { return try escapedString(from: contentStart, isKey: isKey, at: start) }
            guard byte >= 0x20 else { throw syntax("a control character in a string must be escaped") }
            index += 1
        }
        throw syntax("the text ends inside a string")
    }

    private func text(_ range: Range<Int>, isKey: Bool, at start: Int) throws(JSONError) -> String {
        if !isKey, range.count > KeyRules.maxStringBytes { throw tooLong(at: start) }
        guard let text = String(validating: UnsafeBufferPointer(rebasing: bytes[range]), as: UTF8.self) else {
            throw error(.syntax, "a string is not valid UTF-8", at: start)
        }
        return text
    }

    private mutating func escapedString(from start: Int, isKey: Bool, at quote: Int) throws(JSONError) -> String {
        var unescaped = [UInt8](bytes[start..<index])
        while index < bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "\""):
                index += 1
                if !isKey, unescaped.count > KeyRules.maxStringBytes { throw tooLong(at: quote) }
                guard let text = String(validating: unescaped, as: UTF8.self) else {
                    throw error(.syntax, "a string is not valid UTF-8", at: quote)
                }
                return text
            case UInt8(ascii: "\\"): try escape(into: &unescaped)
            case 0..<0x20: throw syntax("a control character in a string must be escaped")
            default:
                unescaped.append(byte)
                index += 1
            }
        }
        throw syntax("the text ends inside a string")
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

    // MARK: Text

    private var peek: UInt8? {
        @inline(__always) get { index < bytes.count ? bytes[index] : nil }
    }

    @inline(__always)
    private mutating func skipSpace() {
        while index < bytes.count, bytes[index] <= 0x20 {
            switch bytes[index] {
            case 0x20, 0x0A, 0x0D, 0x09: index += 1
            default: return
            }
        }
    }

    private mutating func end() throws(JSONError) {
        skipSpace()
        if index < bytes.count { throw syntax("unexpected text after the value") }
    }

    private func checkLevel(_ level: Int) throws(JSONError) {
        // Two more than the depth: the innermost level may still hold `.sv` objects and empty containers.
        guard level <= maxDepth + 2 else { throw tooDeep(at: index) }
    }

    private func syntax(_ reason: String) -> JSONError { error(.syntax, reason, at: index) }

    private func tooDeep(at offset: Int) -> JSONError {
        error(.value, "the data would be more than \(KeyRules.maxDepth) levels deep", at: offset)
    }

    private func tooLong(at offset: Int) -> JSONError {
        error(.value, "the string has more than \(KeyRules.maxStringBytes) bytes", at: offset)
    }

    private func unknownServerValue(at offset: Int) -> JSONError {
        error(.value, "the server value is neither \"timestamp\" nor {\"increment\": number}", at: offset)
    }

    private func error(_ kind: JSONError.Kind, _ reason: String, at offset: Int) -> JSONError {
        JSONError(kind, reason, at: offset, in: bytes)
    }
}

extension Node {
    /// A number as the tree holds it: an integral double within ±2^53 is the integer (but −0 stays a double).
    public init(number value: Double) {
        // The conversion truncates; comparing back asks for no rounding from the C library, which would have to be linked.
        if value.magnitude <= 9_007_199_254_740_992, Double(Int64(value)).bitPattern == value.bitPattern {
            self = .int(Int64(value))
        } else {
            self = .double(value)
        }
    }
}
