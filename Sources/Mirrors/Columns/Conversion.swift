import Glibc
import Tree

/// A value in the form that a column accepts.
enum Cell: Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case text(String)
    /// Microseconds since 1970.
    case timestamp(Int64)
    /// JSON text.
    case json([UInt8])
    /// A decimal number as text.
    case decimal(String)
    case day(CalendarDay)
    /// In lower case.
    case uuid(String)
    /// An element of nil is NULL.
    case texts([String?])
}

extension Cell: Equatable {
    /// Compares by bytes, as PostgreSQL does. Swift's strings treat two spellings of é as equal.
    static func == (one: Cell, other: Cell) -> Bool {
        switch (one, other) {
        case (.null, .null): true
        case (.bool(let one), .bool(let other)): one == other
        case (.int(let one), .int(let other)), (.timestamp(let one), .timestamp(let other)): one == other
        case (.double(let one), .double(let other)): one.bitPattern == other.bitPattern
        case (.text(let one), .text(let other)), (.decimal(let one), .decimal(let other)),
            (.uuid(let one), .uuid(let other)):
            one.hasSameBytes(as: other)
        case (.json(let one), .json(let other)): one == other
        case (.day(let one), .day(let other)): one == other
        case (.texts(let one), .texts(let other)):
            one.count == other.count
                && zip(one, other).allSatisfy { one, other in
                    guard let one, let other else { return one == nil && other == nil }
                    return one.hasSameBytes(as: other)
                }
        default: false
        }
    }
}

/// Converts values of the tree to values of columns.
enum Conversion {
    enum Outcome: Sendable, Equatable {
        case cell(Cell)
        /// The value can't be converted. The reason is a clause.
        case conversionError(String)
    }

    /// Converts a value and ignores its priority. Null becomes NULL with every type.
    static func convert(_ node: Node, to type: ColumnType) -> Outcome {
        let node = node.isLeaf ? node.withoutPriority : node
        if node.isNull { return .cell(.null) }
        if type == .jsonb { return json(node) }
        if type == .textArray { return textArray(node) }
        guard node.isLeaf else { return .conversionError("an object where a single value should be") }
        switch type {
        case .text: return text(node)
        case .bigint: return integer(node)
        case .double: return double(node)
        case .numeric: return numeric(node)
        case .boolean:
            if case .bool(let flag) = node { return .cell(.bool(flag)) }
            return .conversionError("\(name(node)) where a boolean should be")
        case .timestamp: return timestamp(node)
        case .date: return date(node)
        case .uuid: return uuid(node)
        case .jsonb, .textArray: return .conversionError("")
        }
    }

    /// Returns strings unchanged, and numbers and booleans as their JSON text.
    private static func text(_ node: Node) -> Outcome {
        guard case .string(let text) = node else {
            return .cell(.text(String(decoding: JSONWriter.encode(node, form: .plain), as: UTF8.self)))
        }
        return holdsNUL(text)
            ? .conversionError("the text holds U+0000, which PostgreSQL can't store") : .cell(.text(text))
    }

    private static func integer(_ node: Node) -> Outcome {
        switch node {
        case .int(let value): return .cell(.int(value))
        case .double(let value):
            if let whole = Int64(exactly: value) { return .cell(.int(whole)) }
            return .conversionError("the number is not a whole number of 64 bits")
        default: return .conversionError("\(name(node)) where a whole number should be")
        }
    }

    private static func double(_ node: Node) -> Outcome {
        switch node {
        case .int(let value): .cell(.double(Double(value)))
        case .double(let value): .cell(.double(value))
        default: .conversionError("\(name(node)) where a number should be")
        }
    }

    /// Accepts numbers, and strings with decimal numbers, because amounts of money are often stored so.
    private static func numeric(_ node: Node) -> Outcome {
        switch node {
        case .int(let value): return .cell(.decimal(String(value)))
        case .double(let value): return .cell(.decimal(value.description))
        case .string(let text):
            return DecimalText.isNumber(text)
                ? .cell(.decimal(text)) : .conversionError("the text is not a decimal number")
        default: return .conversionError("\(name(node)) where a number should be")
        }
    }

    /// Accepts milliseconds since 1970 or ISO 8601.
    private static func timestamp(_ node: Node) -> Outcome {
        switch moment(node, orElse: "the text is not an ISO 8601 time", "a time") {
        case .found(let microseconds): .cell(.timestamp(microseconds))
        case .conversionError(let reason): .conversionError(reason)
        }
    }

    /// Accepts the same values as a timestamp, and dates such as `2026-01-31`. Returns the day in UTC.
    private static func date(_ node: Node) -> Outcome {
        switch moment(node, orElse: "the text is not a date such as 2026-01-31, nor an ISO 8601 time", "a date") {
        case .found(let microseconds):
            .cell(.day(CalendarDay(milliseconds: microseconds.flooredQuotient(by: 1_000))))
        case .conversionError(let reason): .conversionError(reason)
        }
    }

    private enum TimeReading {
        /// In microseconds since 1970.
        case found(Int64)
        case conversionError(String)
    }

    private static func moment(_ node: Node, orElse unreadable: String, _ wanted: String) -> TimeReading {
        switch node {
        case .int(let milliseconds):
            guard CalendarDay.milliseconds.contains(milliseconds) else { return .conversionError(outOfRange) }
            return .found(milliseconds * 1_000)
        case .double(let milliseconds):
            guard let micros = Int64(exactly: (milliseconds * 1_000).rounded()),
                CalendarDay.milliseconds.contains(micros.flooredQuotient(by: 1_000))
            else { return .conversionError(outOfRange) }
            return .found(micros)
        case .string(let text): return ISO8601.microseconds(text).map { .found($0) } ?? .conversionError(unreadable)
        default: return .conversionError("\(name(node)) where \(wanted) should be")
        }
    }

    private static let outOfRange = "the time is outside the years 1 to 9999"

    private static func uuid(_ node: Node) -> Outcome {
        guard case .string(let text) = node, UUIDText.isUUID(text) else {
            return .conversionError("\(name(node)) where a UUID should be")
        }
        return .cell(.uuid(text.lowercased()))
    }

    private static func json(_ node: Node) -> Outcome {
        let bytes = JSONWriter.encode(node, form: .plain)
        // U+0000 is written as \u0000. A literal backslash is written as a pair, which is skipped.
        if holdsEscapedNUL(bytes) { return .conversionError("a text holds U+0000, which jsonb can't store") }
        return .cell(.json(bytes))
    }

    /// Returns the members of a key set such as `{"a": true, "b": true}`, or the elements of a list of strings.
    private static func textArray(_ node: Node) -> Outcome {
        guard case .branch(let branch) = node else {
            return .conversionError("\(name(node)) where a set of keys should be")
        }
        if let elements = elements(branch) { return .cell(.texts(elements)) }
        var members: [String] = []
        for entry in branch.children {
            guard case .bool(let flag) = entry.node.withoutPriority else {
                return .conversionError("an object that is neither a set of keys nor a list of strings")
            }
            if flag { members.append(entry.key.text) }
        }
        return .cell(.texts(members))
    }

    /// Returns the elements of a branch that clients get as an array; missing indices are NULL. Returns nil if an element is
    /// not a string that PostgreSQL can store.
    private static func elements(_ branch: Branch) -> [String?]? {
        guard case .string? = branch.children.first?.node.withoutPriority,
            let length = JSONWriter.arrayLength(branch.children)
        else { return nil }
        var elements = [String?](repeating: nil, count: length)
        for entry in branch.children {
            guard case .string(let text) = entry.node.withoutPriority, !holdsNUL(text),
                let index = entry.key.integerValue
            else { return nil }
            elements[Int(index)] = text
        }
        return elements
    }

    /// Returns an array literal of PostgreSQL, such as `{"a",NULL,"b"}`.
    static func arrayLiteral(_ members: [String?]) -> String {
        var text = "{"
        for (index, member) in members.enumerated() {
            if index > 0 { text += "," }
            guard let member else {
                text += "NULL"
                continue
            }
            text += "\""
            for scalar in member.unicodeScalars {
                if scalar == "\"" || scalar == "\\" { text += "\\" }
                text.unicodeScalars.append(scalar)
            }
            text += "\""
        }
        return text + "}"
    }

    /// Returns the kind of a value, for messages.
    private static func name(_ node: Node) -> String {
        switch node {
        case .bool: "a boolean"
        case .int, .double: "a number"
        case .string: "a text"
        default: "an object"
        }
    }

    private static func holdsNUL(_ text: String) -> Bool {
        let isFound = text.utf8.withContiguousStorageIfAvailable { bytes in
            bytes.baseAddress.map { memchr($0, 0, bytes.count) != nil } ?? false
        }
        return isFound ?? text.utf8.contains(0)
    }

    private static func holdsEscapedNUL(_ bytes: [UInt8]) -> Bool {
        guard bytes.contains(UInt8(ascii: "\\")) else { return false }
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "\\") {
                if bytes[(index + 1)...].starts(with: "u0000".utf8) { return true }
                index += 1
            }
            index += 1
        }
        return false
    }
}

extension Int64 {
    /// Returns the quotient rounded down, also for times before 1970.
    fileprivate func flooredQuotient(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}

/// The types that a mirror's columns may have.
public enum ColumnType: String, Sendable, CaseIterable {
    case text
    case bigint
    case double = "double precision"
    case numeric
    case boolean
    case timestamp = "timestamptz"
    case date
    case jsonb
    case textArray = "text[]"
    case uuid

    /// The type in SQL.
    var sql: String { rawValue }

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// The types of columns for captured keys.
public enum KeyType: String, Sendable, CaseIterable {
    case text, bigint, uuid, date

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// A value without its texts that contain U+0000, which `jsonb` can't store.
struct StorableJSON {
    /// The remaining value, as a cell of a `jsonb` column.
    let cell: Cell
    /// The texts that were left out, with their paths within the value, in key order. There is at least one.
    let leftOut: [(path: Path, value: Node)]

    /// Returns nil for a leaf, for a value that `jsonb` can store completely, and if nothing would remain.
    init?(_ value: Node) {
        guard value.isBranch else { return nil }
        var found: [(path: Path, value: Node)] = []
        Self.collect(value, .root, &found)
        guard !found.isEmpty else { return nil }
        var left = value
        for text in found { left = left.replacing(text.path, with: .null) }
        guard !left.isNull, case .cell(let cell) = Conversion.convert(left, to: .jsonb) else { return nil }
        self.cell = cell
        leftOut = found
    }

    private static func collect(_ node: Node, _ path: Path, _ found: inout [(path: Path, value: Node)]) {
        switch node.isLeaf ? node.withoutPriority : node {
        case .string(let text) where text.utf8.contains(0): found.append((path, node))
        case .branch(let branch):
            for entry in branch.children { collect(entry.node, path.appending(entry.key), &found) }
        default: break
        }
    }
}
