import Tree

/// Parses the paths and values of messages, within the limits of the database.
enum MessageValue {
    /// Parses the path `p`, with or without a leading slash, not percent-encoded (reference: rtdb-protocol 2.2).
    static func path(_ body: MessageFields) throws(MessageError) -> Path {
        guard let text = body.string("p") else { throw MessageError(reason: "Invalid path: p must be a string") }
        return try checked(Path(splitting: text))
    }

    /// Returns the path; throws if one of its keys or its depth is invalid.
    static func checked(_ path: Path) throws(MessageError) -> Path {
        for (index, key) in path.keys.enumerated() {
            if key == .priority, index == path.depth - 1 { continue }
            if let violation = KeyRules.violation(in: key) {
                throw MessageError(reason: "Invalid path: a key \(violation.reason)")
            }
        }
        guard path.depth <= KeyRules.maxDepth + (path.namesPriority ? 1 : 0) else {
            throw MessageError(reason: "Invalid path: more than \(KeyRules.maxDepth) levels deep")
        }
        return path
    }

    /// Parses a written value at a path; it may contain server values.
    static func written(_ raw: RawJSON, at path: Path) throws(MessageError) -> JSONParser.Parsed {
        let parsed: JSONParser.Parsed
        do throws(JSONError) {
            parsed = try JSONParser.parse(raw.text, maxDepth: max(0, KeyRules.maxDepth - path.depth))
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
        if path.namesPriority { try checkPriority(parsed.node) }
        return parsed
    }

    /// Parses a stored value at a path, as a server sends it.
    static func node(_ raw: RawJSON, at path: Path) throws(MessageError) -> Node {
        let node = try node(raw, below: path.depth)
        if path.namesPriority { try checkPriority(node) }
        return node
    }

    /// Parses a stored value that is `depth` levels below the root.
    static func node(_ raw: RawJSON, below depth: Int) throws(MessageError) -> Node {
        do throws(JSONError) {
            let parsed = try JSONParser.parse(raw.text, maxDepth: max(0, KeyRules.maxDepth - depth))
            if !parsed.hasServerValue { return parsed.node }
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
        throw unresolved
    }

    /// Parses the changes of a written merge, which may contain server values. Their paths begin with the merge's path.
    static func update(
        _ raw: RawJSON, at path: Path
    ) throws(MessageError) -> (changes: [Change], hasServerValue: Bool) {
        let update: (changes: [JSONParser.ParsedChange], hasServerValue: Bool)?
        do throws(JSONError) {
            update = try JSONParser.parseUpdate(raw.text, maxDepth: max(0, KeyRules.maxDepth - path.depth))
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
        guard let update else { throw MessageError(reason: "Invalid data: d must be an object") }
        let changes = update.changes.map { Change(path: path.appending($0.path), value: $0.node) }
        if let overlap = Change.overlap(in: changes) {
            throw MessageError(
                reason: "Invalid data: \(overlap.ancestor) is an ancestor of \(overlap.path) in the same update")
        }
        return (changes, update.hasServerValue)
    }

    /// Parses the changes of a merge that a server sends. Their paths are relative to the merge's path.
    static func changes(_ raw: RawJSON, at path: Path) throws(MessageError) -> [Change] {
        let (changes, hasServerValue) = try update(raw, at: path)
        if hasServerValue { throw unresolved }
        return changes.map { Change(path: $0.path.relative(to: path), value: $0.value) }
    }

    private static func checkPriority(_ node: Node) throws(MessageError) {
        switch node {
        case .null, .int, .double, .string, .serverValue: break
        default: throw MessageError(reason: "Invalid data: a priority must be a number or a string")
        }
    }

    private static let unresolved = MessageError(reason: "Invalid data: a server value is not resolved")
}

/// An object's members by name. Of members with the same name the last one counts.
struct MessageFields {
    private let members: [(key: String, value: RawJSON)]

    init(_ members: [(key: String, value: RawJSON)]) { self.members = members }

    subscript(_ name: String) -> RawJSON? { members.last { $0.key == name }?.value }

    func string(_ name: String) -> String? { self[name]?.string }

    /// - Parameter owner: the owner of the text, for the error.
    func requiredString(_ name: String, of owner: String) throws(MessageError) -> String {
        guard let text = string(name) else { throw MessageError(reason: "\(owner) without its text \(name)") }
        return text
    }
}
