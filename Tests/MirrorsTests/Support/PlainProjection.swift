import Glibc
import Mirrors
import Tree

/// The expected content of a mirror's table, computed from the whole tree in a slow and simple way. Used by the
/// property tests.
struct PlainProjection {
    struct Row: Equatable {
        var columns: [String?] = []
        var conversionErrors: Set<String> = []

        /// Compares bytes: two spellings of é are different texts.
        static func == (one: Row, other: Row) -> Bool {
            one.columns.map { $0.map { Array($0.utf8) } } == other.columns.map { $0.map { Array($0.utf8) } }
                && one.conversionErrors == other.conversionErrors
        }
    }
    /// Rows by captured keys. Strings cannot serve as keys, because two spellings of é are equal strings.
    var rows: [[Key]: Row] = [:]
    /// Record paths with columns.
    var errors: Set<[Key]> = []

    init(_ definition: MirrorDefinition, _ root: Node) {
        visit(root, Array(definition.pattern.parts), [], "", definition)
    }

    /// Creates the projection of given records.
    init(_ definition: MirrorDefinition, records: [[Key]: Node]) {
        for (keys, node) in records { record(node, keys, "", definition) }
    }

    private mutating func visit(
        _ node: Node, _ parts: [PathPattern.Part], _ keys: [Key], _ path: String, _ definition: MirrorDefinition
    ) {
        guard let part = parts.first else { return record(node, keys, path, definition) }
        guard case .branch(let branch) = node else { return }
        for entry in branch.children {
            var keys = keys
            switch part {
            case .key(let key): if key != entry.key { continue }
            case .capture: keys.append(entry.key)
            }
            visit(entry.node, Array(parts.dropFirst()), keys, "\(path)/\(entry.key.text)", definition)
        }
    }

    /// Filters with equivalent Swift closures, which do not use the rules language.
    static let filters: [String: @Sendable (Node, [Key]) -> Bool] = [
        "data.child('a').exists()": { node, _ in !node.child(Key("a")).isNull },
        "data.hasChildren()": { node, _ in !node.isLeaf && !node.isNull },
        "$k != 'a'": { _, keys in keys.last != Key("a") },
        // Comparing a value that is not a number with a number gives false.
        "data.child('b').val() > 3": { node, _ in
            switch node.child(Key("b")).withoutPriority {
            case .int(let value): value > 3
            case .double(let value): value > 3
            default: false
            }
        },
    ]

    private mutating func record(_ node: Node, _ keys: [Key], _ path: String, _ definition: MirrorDefinition) {
        if let filter = definition.filter, let admits = Self.filters[filter.text], !admits(node, keys) { return }
        for (key, column) in zip(keys, definition.keys)
        where column.type == .bigint && "\(Int64(key.text) ?? 0)" != key.text
            || column.type == .date && Self.text(.string(key.text), .date) != .some(key.text)
        {
            errors.insert([Key(path), Key("")])
            return
        }
        var row = Row()
        var left = node
        var isWanted = true
        for column in definition.columns {
            let value = node[column.path]
            let found = Self.text(value, column.type)
            var text = found ?? nil
            var isConversionError = found == nil
            if isConversionError {
                row.conversionErrors.insert(column.name)
                errors.insert([Key(path), Key(column.name)])
                if column.type == .jsonb { text = Self.cut(value) }
                isConversionError = text == nil
            }
            if !isConversionError { left = left.replacing(column.path, with: .null) }
            if value.isNull || (isConversionError && column.notNull != nil) {
                if !column.defaultValue.isNull {
                    text = Self.text(column.defaultValue, column.type) ?? nil
                } else if let policy = column.notNull {
                    isWanted = false
                    if policy == .error { errors.insert([Key(path), Key(column.name)]) }
                }
            }
            row.columns.append(text)
        }
        if let rest = definition.rest {
            let found = Self.text(left, .jsonb)
            if found == nil {
                row.conversionErrors.insert(rest.name)
                errors.insert([Key(path), Key(rest.name)])
            }
            row.columns.append(found ?? Self.cut(left))
        }
        if isWanted { rows[keys] = row }
    }

    /// Returns an object without the texts that `jsonb` cannot hold.
    private static func cut(_ node: Node) -> String? {
        func storable(_ node: Node) -> Node {
            switch node.isLeaf ? node.withoutPriority : node {
            case .string(let text) where text.contains("\0"): .null
            case .branch(let branch):
                Node(children: branch.children.map { ($0.key, storable($0.node)) }.filter { !$0.1.isNull })
            default: node
            }
        }
        let left = storable(node)
        return left.isNull || node.isLeaf ? nil : canonicalJSON(json(left))
    }

    /// The value as the test reads it back. The inner nil is NULL, the outer nil a conversion error.
    private static func text(_ node: Node, _ type: ColumnType) -> String?? {
        let node = node.isLeaf ? node.withoutPriority : node
        if node.isNull { return .some(nil) }
        if type == .jsonb {
            return json(node).contains("\\u0000") ? .none : .some(canonicalJSON(json(node)))
        }
        switch (type, node) {
        case (.text, .string(let text)): return text.contains("\0") ? .none : .some(text)
        case (.text, .branch): return .none
        case (.text, _): return .some(json(node))
        case (.bigint, .int(let value)): return .some("\(value)")
        case (.bigint, .double(let value)):
            return value == value.rounded() && abs(value) < 9e18 ? .some("\(Int64(value))") : .none
        case (.double, .int(let value)): return .some(number(Double(value)))
        case (.double, .double(let value)): return .some(number(value))
        case (.numeric, .int(let value)): return .some(number(Double(value)))
        case (.numeric, .double(let value)): return .some(number(value))
        case (.numeric, .string(let text)):
            let isNumber =
                text.first?.isNumber == true && text.allSatisfy { $0.isASCII && ($0.isNumber || ".e".contains($0)) }
            return isNumber ? Double(text).map { .some(number($0)) } ?? .none : .none
        case (.boolean, .bool(let flag)): return .some("\(flag)")
        case (.timestamp, .int(let value)): return inRange(value) ? .some("\(value * 1_000)") : .none
        case (.timestamp, .double(let value)):
            return abs(value) < 1e14 ? .some("\(Int64((value * 1_000).rounded()))") : .none
        case (.timestamp, .string(let text)): return moment(text).map { .some("\($0)") } ?? .none
        case (.date, .int(let value)): return inRange(value) ? .some(day(ofMilliseconds: Double(value))) : .none
        case (.date, .double(let value)):
            return abs(value) < 1e14 ? .some(day(ofMilliseconds: value)) : .none
        case (.date, .string(let text)):
            return moment(text).map { .some(day(ofMilliseconds: Double($0 / 1_000))) } ?? .none
        case (.uuid, .string(let text)):
            let isUUID = text.utf8.count == 36 && text.filter { $0 == "-" }.count == 4
            return isUUID ? .some(text.lowercased()) : .none
        case (.textArray, .branch(let branch)):
            let values = branch.children.map { ($0.key.text, $0.node.withoutPriority) }
            if values.allSatisfy({ $0.1 == .bool(true) || $0.1 == .bool(false) }) {
                return .some(values.filter { $0.1 == .bool(true) }.map(\.0).joined(separator: "\u{1}"))
            }
            var elements: [String] = []
            let indices = values.compactMap { value in Int(value.0).flatMap { "\($0)" == value.0 && $0 >= 0 ? $0 : nil }
            }
            guard indices.count == values.count, let last = indices.max(), last < 2 * values.count else { return .none }
            let texts = Dictionary(uniqueKeysWithValues: zip(indices, values.map(\.1)))
            for index in 0...last {
                guard let value = texts[index] else {
                    elements.append("\u{2}")
                    continue
                }
                guard case .string(let text) = value, !text.contains("\0") else { return .none }
                elements.append(text)
            }
            return .some(elements.joined(separator: "\u{1}"))
        default: return .none
        }
    }

    private static func inRange(_ milliseconds: Int64) -> Bool { abs(milliseconds) < 60_000_000_000_000 }

    private static func day(ofMilliseconds value: Double) -> String {
        var seconds = time_t((value / 1_000).rounded(.down))
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return day(parts)
    }

    private static func day(_ parts: tm) -> String {
        let pad = { (value: Int32) in value < 10 ? "0\(value)" : "\(value)" }
        return "\(parts.tm_year + 1900)-\(pad(parts.tm_mon + 1))-\(pad(parts.tm_mday))"
    }

    /// Parses only the forms that the generator creates.
    private static func moment(_ text: String) -> Int64? {
        let shape = String(text.map { $0.isNumber ? "9" : $0 })
        guard ["9999-99-99", "9999-99-99T99:99:99Z", "9999-99-99 99:99"].contains(shape) else { return nil }
        let numbers = text.split { !$0.isNumber }.compactMap { Int32($0) }
        var parts = tm()
        parts.tm_year = numbers[0] - 1900
        parts.tm_mon = numbers[1] - 1
        parts.tm_mday = numbers[2]
        if numbers.count > 3 { parts.tm_hour = numbers[3] }
        if numbers.count > 4 { parts.tm_min = numbers[4] }
        if numbers.count > 5 { parts.tm_sec = numbers[5] }
        // A nonexistent day comes back as another day.
        let seconds = timegm(&parts)
        return text.hasPrefix(day(parts)) ? Int64(seconds) * 1_000_000 : nil
    }

    static func number(_ value: Double) -> String { value == 0 ? "0.0" : value.description }

    private static func json(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .plain), as: UTF8.self)
    }

    /// Returns the same text for equal values, regardless of spelling: -0 is 0 in jsonb.
    static func canonicalJSON(_ text: String) -> String {
        guard let node = try? JSONParser.parse(text, maxDepth: 64) else { return text }
        return json(canonical(node))
    }

    private static func canonical(_ node: Node) -> Node {
        switch node {
        case .double(let value): Int64(exactly: value).map { .int($0) } ?? node
        case .branch(let branch): Node(children: branch.children.map { ($0.key, canonical($0.node)) })
        default: node
        }
    }
}
