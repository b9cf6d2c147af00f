/// Reads an export of any size, piece by piece, and emits its leaves as rows of storage. Memory holds the open levels and the
/// token that a piece has divided.
///
/// Reads JSON as `JSONParser` does (`.value`, `.priority`, arrays, nulls), but rejects server values, which an export can't
/// contain. Equal keys of one object can't be merged in a stream, and are rejected.
public struct JSONRowReader: ~Copyable {
    /// Receives one leaf or priority, and its path.
    public typealias Emit = (_ path: [UInt8], _ value: Node) throws -> Void

    /// The reason why the text can't be read, with its position.
    public struct Failure: Error, Equatable, Sendable, CustomStringConvertible {
        public let reason: String
        public let line: Int
        public let column: Int

        public var description: String { "Line \(line), column \(column): \(reason)" }
    }

    private enum Expecting {
        case value, firstElementOrEnd, firstKeyOrEnd, key, colon, commaOrEnd, end
    }

    /// An open object or array.
    private struct Level {
        let isArray: Bool
        /// The length of the path including this level's own key, in bytes.
        let pathLength: Int
        var position = 0
        var priority: Node = .null
        var hasValue = false
        /// The number of rows at or below this level. A priority alone is no value.
        var rowCount = 0
        var keys = KeyOrder()
    }

    private var path: [UInt8]
    private let base: Int
    private let baseDepth: Int
    private var levels: [Level] = []
    private var expecting = Expecting.value
    /// The role of the value that follows the current key.
    private var role = Role.child
    private enum Role { case child, value, priority }
    private var pending: [UInt8] = []
    private var line = 1
    private var lineStart = 0
    private var consumed = 0
    public private(set) var rowCount = 0

    /// - Parameter path: the path of the export's root.
    public init(at path: Path = .root) {
        self.path = path.isRoot ? [] : Array(path.description.utf8)
        base = self.path.count
        baseDepth = path.depth
    }

    /// Reads the next piece.
    public mutating func take(_ piece: [UInt8], _ emit: Emit) throws {
        if pending.isEmpty {
            try read(piece, isLast: false, emit)
        } else {
            let joined = pending + piece
            pending = []
            try read(joined, isLast: false, emit)
        }
    }

    /// Reads the rest after the last piece. Throws if the text is incomplete.
    public mutating func finish(_ emit: Emit) throws {
        let rest = pending
        pending = []
        try read(rest, isLast: true, emit)
        switch expecting {
        case .end: break
        case .value where levels.isEmpty:
            throw failure(consumed == 0 ? "the text is empty" : "there is nothing but white space", at: 0)
        default: throw failure("the text ends too early", at: 0)
        }
    }

    // MARK: Tokens

    private mutating func read(_ bytes: [UInt8], isLast: Bool, _ emit: Emit) throws {
        var index = 0
        while true {
            while index < bytes.count, bytes[index] <= 0x20 {
                switch bytes[index] {
                case 0x0A:
                    line += 1
                    lineStart = consumed + index + 1
                case 0x20, 0x09, 0x0D: break
                default: throw failure("a control character", at: index)
                }
                index += 1
            }
            guard index < bytes.count else { break }
            guard let end = try tokenEnd(bytes, index, isLast) else {
                // The token continues in the next piece.
                guard bytes.count - index <= KeyRules.maxStringBytes * 6 + 16 else {
                    throw failure("a string has more than \(KeyRules.maxStringBytes) bytes", at: index)
                }
                pending = Array(bytes[index...])
                break
            }
            try token(bytes, index..<end, emit)
            index = end
        }
        consumed += index
    }

    /// Returns the end of the token that begins here, or nil if more text is needed.
    private func tokenEnd(_ bytes: [UInt8], _ start: Int, _ isLast: Bool) throws -> Int? {
        switch bytes[start] {
        case UInt8(ascii: "{"), UInt8(ascii: "}"), UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: ","),
            UInt8(ascii: ":"):
            return start + 1
        case UInt8(ascii: "\""):
            var index = start + 1
            while index < bytes.count {
                if bytes[index] == UInt8(ascii: "\\") {
                    index += 2
                } else if bytes[index] == UInt8(ascii: "\"") {
                    return index + 1
                } else {
                    index += 1
                }
            }
            if isLast { throw failure("the text ends inside a string", at: start) }
            return nil
        default:
            var index = start
            while index < bytes.count, Self.isWordByte(bytes[index]) { index += 1 }
            if index == bytes.count, !isLast { return nil }
            guard index > start else { throw failure("unexpected character", at: start) }
            return index
        }
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E: true
        default: false
        }
    }

    // MARK: Grammar

    private mutating func token(_ bytes: [UInt8], _ range: Range<Int>, _ emit: Emit) throws {
        let first = bytes[range.lowerBound]
        switch expecting {
        case .end: throw failure("unexpected text after the value", at: range.lowerBound)
        case .colon:
            guard first == UInt8(ascii: ":") else { throw failure("expected : after a key", at: range.lowerBound) }
            expecting = .value
        case .commaOrEnd: try commaOrEnd(first, range.lowerBound, emit)
        case .firstKeyOrEnd, .key:
            if first == UInt8(ascii: "}"), case .firstKeyOrEnd = expecting { return try close(emit) }
            guard first == UInt8(ascii: "\"") else {
                throw failure("expected a key in double quotes", at: range.lowerBound)
            }
            try key(bytes, range)
        case .firstElementOrEnd:
            if first == UInt8(ascii: "]") { return try close(emit) }
            try value(bytes, range, emit)
        case .value: try value(bytes, range, emit)
        }
    }

    private mutating func commaOrEnd(_ byte: UInt8, _ offset: Int, _ emit: Emit) throws {
        let isArray = levels[levels.count - 1].isArray
        switch byte {
        case UInt8(ascii: ","):
            if isArray { beginElement() }
            expecting = isArray ? .value : .key
        case UInt8(ascii: "]") where isArray, UInt8(ascii: "}") where !isArray: try close(emit)
        default: throw failure(isArray ? "expected , or ] in an array" : "expected , or } in an object", at: offset)
        }
    }

    private mutating func key(_ bytes: [UInt8], _ range: Range<Int>) throws {
        let top = levels.count - 1
        guard case .string(let text) = try scalar(bytes, range) else { return }
        let key = Key(text)
        expecting = .colon
        path.removeSubrange(levels[top].pathLength...)
        switch text {
        case ".value": role = .value
        case ".priority": role = .priority
        case ".sv":
            throw failure(
                "a server value (.sv) is resolved when a client writes it; an import accepts only resolved values",
                at: range.lowerBound)
        default:
            if let violation = KeyRules.violation(in: key) {
                throw failure("the key \(violation.reason)", at: range.lowerBound)
            }
            guard levels[top].keys.isNew(key) else {
                throw failure("the key \"\(text)\" comes twice in one object", at: range.lowerBound)
            }
            role = .child
            path.append(UInt8(ascii: "/"))
            path.append(contentsOf: text.utf8)
        }
    }

    private mutating func beginElement() {
        let top = levels.count - 1
        path.removeSubrange(levels[top].pathLength...)
        path.append(UInt8(ascii: "/"))
        path.append(contentsOf: String(levels[top].position).utf8)
        levels[top].position += 1
        role = .child
    }

    private mutating func value(_ bytes: [UInt8], _ range: Range<Int>, _ emit: Emit) throws {
        let first = bytes[range.lowerBound]
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            guard role == .child else {
                throw failure("a .value or .priority can't be an object or array", at: range.lowerBound)
            }
            guard baseDepth + levels.count <= KeyRules.maxDepth else {
                throw failure("more than \(KeyRules.maxDepth) levels deep", at: range.lowerBound)
            }
            let isArray = first == UInt8(ascii: "[")
            levels.append(Level(isArray: isArray, pathLength: path.count))
            if isArray {
                beginElement()
                expecting = .firstElementOrEnd
            } else {
                expecting = .firstKeyOrEnd
            }
            return
        }
        let node = try scalar(bytes, range)
        try leaf(node, at: range.lowerBound, emit)
        expecting = levels.isEmpty ? .end : .commaOrEnd
    }

    private mutating func leaf(_ node: Node, at offset: Int, _ emit: Emit) throws {
        guard !levels.isEmpty else {
            if !node.isNull { try send(path, node, emit) }
            return
        }
        let top = levels.count - 1
        switch role {
        case .priority:
            if case .bool = node { throw failure("a priority must be a number or a string", at: offset) }
            levels[top].priority = node
        case .value:
            guard !node.isNull else { return }
            guard levels[top].rowCount == 0 else {
                throw failure("an object with .value can't also have children", at: offset)
            }
            levels[top].hasValue = true
            levels[top].rowCount += 1
            try send(Array(path[..<levels[top].pathLength]), node, emit)
        case .child:
            guard !node.isNull else { return }
            guard baseDepth + levels.count <= KeyRules.maxDepth else {
                throw failure("more than \(KeyRules.maxDepth) levels deep", at: offset)
            }
            if levels[top].hasValue { throw failure("an object with .value can't also have children", at: offset) }
            levels[top].rowCount += 1
            try send(path, node, emit)
        }
    }

    private mutating func close(_ emit: Emit) throws {
        guard let level = levels.popLast() else { return }
        path.removeSubrange(level.pathLength...)
        if level.rowCount > 0 {
            if !level.priority.isNull { try send(path + Array("/.priority".utf8), level.priority, emit) }
            if !levels.isEmpty {
                if levels[levels.count - 1].hasValue {
                    throw failure("an object with .value can't also have children", at: 0)
                }
                levels[levels.count - 1].rowCount += 1
            }
        }
        role = .child
        expecting = levels.isEmpty ? .end : .commaOrEnd
    }

    private mutating func send(_ path: [UInt8], _ node: Node, _ emit: Emit) throws {
        rowCount += 1
        try emit(path.isEmpty ? [UInt8(ascii: "/")] : path, node)
    }

    private func scalar(_ bytes: [UInt8], _ range: Range<Int>) throws -> Node {
        do throws(JSONError) {
            return try bytes.withUnsafeBufferPointer { (buffer) throws(JSONError) in
                try JSONParser.parse(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: buffer[range])))
            }
        } catch {
            throw failure(error.reason, at: range.lowerBound + error.column - 1)
        }
    }

    private func failure(_ reason: String, at offset: Int) -> Failure {
        Failure(reason: reason, line: line, column: consumed + offset - lineStart + 1)
    }
}

/// Detects keys that occur twice in their object. While keys are in order, as in exports, they are only stored. Once the order
/// ends, they are looked up.
struct KeyOrder {
    private var isAscending = true
    /// The keys so far, while they are ascending.
    private var inOrder: [Key] = []
    /// The keys so far, once they are no longer ascending.
    private var seen: Set<Key> = []
    private var last: Key?
    /// The maximum number of keys stored in case the order ends.
    private static let maxKept = 4_000_000

    /// Returns false for a key that occurred before. Also returns false if that is unknown, because an object without order has
    /// too many keys.
    mutating func isNew(_ key: Key) -> Bool {
        defer { last = key }
        if isAscending {
            guard let last, !(last < key) else {
                if inOrder.count < Self.maxKept { inOrder.append(key) }
                return true
            }
            isAscending = false
            seen = Set(inOrder)
            inOrder = []
        }
        return seen.count < Self.maxKept && seen.insert(key).inserted
    }
}
