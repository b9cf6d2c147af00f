import JSONText
import Tree

extension DefinitionReader {
    mutating func keys(
        _ value: SourceValue?, _ pattern: PathPattern?, _ position: SourcePosition
    ) -> [MirrorDefinition.KeyColumn] {
        guard let pattern else { return [] }
        var members: [String: SourceValue] = [:]
        if let value { members = object(value, "keys", allowed: pattern.captures) ?? [:] }
        return pattern.captures.map { name in
            guard let value = members[name] else { return .init(name: name, type: .text, comment: nil) }
            let part = "keys.\(name)"
            if case .string = value.kind { return .init(name: name, type: keyType(value, part), comment: nil) }
            guard let parts = object(value, part, allowed: ["type", "comment"]) else {
                return .init(name: name, type: .text, comment: nil)
            }
            return .init(
                name: name, type: parts["type"].map { keyType($0, "\(part).type") } ?? .text,
                comment: parts["comment"].flatMap { text($0, "\(part).comment") })
        }
    }

    private mutating func keyType(_ value: SourceValue, _ part: String) -> KeyType {
        guard let text = text(value, part) else { return .text }
        if let type = KeyType(rawValue: text) { return type }
        note(value.position, part, "a key can't be stored as \"\(text)\"; types of keys are \(KeyType.list)")
        return .text
    }

    mutating func columns(_ value: SourceValue?, _ position: SourcePosition) -> [MirrorDefinition.Column] {
        guard let value else { return [] }
        guard case .object(let members) = value.kind else {
            note(value.position, "columns", "this should be an object of columns by name, but is \(value.kindName)")
            return []
        }
        return members.compactMap { member in
            let column = column(member.key, member.value)
            if column == nil { mistakenColumns.insert(member.key) }
            return column
        }
    }

    private mutating func column(_ name: String, _ value: SourceValue) -> MirrorDefinition.Column? {
        let part = "columns.\(name)"
        if case .string = value.kind {
            guard let type = columnType(value, part), let path = relativePath(name, value.position, part) else {
                return nil
            }
            return .init(
                name: name, type: type, path: path, defaultValue: .null, notNull: nil, comment: nil)
        }
        let allowed = ["type", "path", "default", "not null", "comment"]
        guard let members = object(value, part, allowed: allowed) else { return nil }
        guard let typeValue = members["type"] else {
            note(value.position, part, "the type is missing; types are \(ColumnType.list)")
            return nil
        }
        let given = members["path"].flatMap { text($0, "\(part).path") } ?? name
        guard let type = columnType(typeValue, "\(part).type"),
            let path = relativePath(given, members["path"]?.position ?? value.position, "\(part).path")
        else { return nil }
        let defaultValue = members["default"].map { self.defaultValue($0, type, "\(part).default") } ?? .null
        var notNull: MirrorDefinition.NotNull?
        if let policy = members["not null"] { notNull = self.notNull(policy, "\(part).not null") }
        if notNull == .useDefault, defaultValue.isNull {
            note(value.position, part, "\"not null\" is \"default\", but there is no default")
        }
        return .init(
            name: name, type: type, path: path, defaultValue: defaultValue, notNull: notNull,
            comment: members["comment"].flatMap { text($0, "\(part).comment") })
    }

    private mutating func columnType(_ value: SourceValue, _ part: String) -> ColumnType? {
        guard let text = text(value, part) else { return nil }
        if let type = ColumnType(rawValue: text) { return type }
        note(value.position, part, "there is no type \"\(text)\"; types are \(ColumnType.list)")
        return nil
    }

    private mutating func notNull(_ value: SourceValue, _ part: String) -> MirrorDefinition.NotNull? {
        let policies = MirrorDefinition.NotNull.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        guard let text = text(value, part) else { return nil }
        if let policy = MirrorDefinition.NotNull(rawValue: text) { return policy }
        note(value.position, part, "this should be one of \(policies), for records without the value")
        return nil
    }

    /// Parses a path such as `author/name`. `.` is the record itself, and `.priority` at the end is the priority.
    private mutating func relativePath(_ text: String, _ position: SourcePosition, _ part: String) -> Path? {
        if text == "." { return .root }
        let path = Path(splitting: text)
        guard !path.isRoot else {
            note(position, part, "the path is empty; the record itself is \".\"")
            return nil
        }
        for (index, key) in path.keys.enumerated() {
            if key == .priority, index == path.depth - 1 { continue }
            if let violation = KeyRules.violation(in: key) {
                note(position, part, "the path's part \"\(key.text)\" \(violation.reason)")
                return nil
            }
        }
        return path
    }

    private mutating func defaultValue(_ value: SourceValue, _ type: ColumnType, _ part: String) -> Node {
        let node: Node
        switch value.kind {
        case .null:
            node = .null
        case .bool(let flag): node = .bool(flag)
        case .string(let text): node = .string(text)
        case .number(let text): node = (try? JSONParser.parse(text)) ?? .null
        case .array, .object:
            note(value.position, part, "a default must be a string, a number or a boolean")
            return .null
        }
        if case .conversionError(let reason) = Conversion.convert(node, to: type) {
            note(value.position, part, "the default doesn't fit \(type.rawValue): \(reason)")
        }
        return node
    }

    mutating func rest(_ value: SourceValue?) -> MirrorDefinition.Rest? {
        guard let value else { return nil }
        if case .string(let name) = value.kind { return .init(name: name, comment: nil) }
        guard let members = object(value, "rest", allowed: ["column", "comment"]) else { return nil }
        guard let column = members["column"] else {
            note(value.position, "rest", "the column's name is missing")
            return nil
        }
        return text(column, "rest.column").map { name in
            .init(name: name, comment: members["comment"].flatMap { text($0, "rest.comment") })
        }
    }
}
