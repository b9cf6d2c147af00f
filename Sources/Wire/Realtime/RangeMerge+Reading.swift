import Tree

extension RangeMerge {
    /// Parses `{"s":…,"e":…,"m":…}` (reference: rtdb-protocol 3.7). The leaves may be in any order.
    ///
    /// - Parameter depth: the depth of the path to which the ranges are relative.
    init(_ fields: MessageFields, below depth: Int) throws(MessageError) {
        guard let data = fields["m"] else { throw MessageError(reason: "Invalid ranges: m is missing") }
        let range = RangeMerge(start: try Self.bound(fields["s"]), end: try Self.bound(fields["e"]), rows: [])
        var reader = RangeReader(mostLevels: max(0, KeyRules.maxDepth - depth))
        try reader.read(data)
        let rows = try reader.sorted()
        self.init(
            start: range.start, end: range.end, rows: rows.filter { range.includes($0.path) },
            repeated: rows.filter { !range.includes($0.path) })
    }

    private static func bound(_ raw: RawJSON?) throws(MessageError) -> Path? {
        guard let raw, !raw.isNull else { return nil }
        guard let text = raw.string else { throw MessageError(reason: "Invalid ranges: s and e must be paths") }
        return try MessageValue.checked(Path(splitting: text))
    }
}

/// Collects the leaves of a range. It can't build a tree, because a range may contain the priority of a node and none
/// of its leaves.
private struct RangeReader {
    private var rows: [LeafRow] = []
    private var path = Path()
    private let mostLevels: Int

    init(mostLevels: Int) { self.mostLevels = mostLevels }

    /// The depth of the recursion is limited by the maximum depth of paths.
    mutating func read(_ value: RawJSON) throws(MessageError) {
        if value.isArray { return try array(value) }
        guard value.isObject else { return try leaf(value) }
        guard let members = value.members else { throw Self.malformed }
        // Null is no value: the object's other keys then decide, as in the SDKs.
        if let own = members.last(where: { $0.key == ".value" }), !own.value.isNull { return try leaf(value) }
        guard path.depth < mostLevels || members.isEmpty else {
            throw MessageError(reason: "Invalid ranges: more than \(KeyRules.maxDepth) levels deep")
        }
        for (name, child) in members {
            let key = Key(name)
            path.append(key)
            if key == .priority {
                try priority(child)
            } else if name != ".value" {
                if let violation = KeyRules.violation(in: key) {
                    throw MessageError(reason: "Invalid ranges: a key \(violation.reason)")
                }
                try read(child)
            }
            path.removeLast()
        }
    }

    /// Reads the children with index keys. A part of an array is written as an array, too.
    private mutating func array(_ value: RawJSON) throws(MessageError) {
        guard let elements = value.elements else { throw Self.malformed }
        guard path.depth < mostLevels || elements.isEmpty else {
            throw MessageError(reason: "Invalid ranges: more than \(KeyRules.maxDepth) levels deep")
        }
        for (index, element) in elements.enumerated() where !element.isNull {
            path.append(Key(String(index)))
            try read(element)
            path.removeLast()
        }
    }

    private mutating func leaf(_ value: RawJSON) throws(MessageError) {
        let node = try MessageValue.node(value, below: KeyRules.maxDepth)
        if !node.isNull { rows.append(LeafRow(path: path, value: node)) }
    }

    private mutating func priority(_ value: RawJSON) throws(MessageError) {
        guard let priority = value.scalar else { throw Self.malformed }
        switch priority {
        case .null: break
        case .int, .double, .string: rows.append(LeafRow(path: path, value: priority))
        default: throw MessageError(reason: "Invalid ranges: a priority must be a number or a string")
        }
    }

    /// Returns the leaves in order. Throws if a leaf is below another one or occurs twice.
    func sorted() throws(MessageError) -> [LeafRow] {
        let sorted = rows.sorted { RangeMerge.order($0.path, $1.path) < 0 }
        for (first, second) in zip(sorted, sorted.dropFirst())
        where first.path == second.path || !first.path.namesPriority && first.path.contains(second.path) {
            throw MessageError(reason: "Invalid ranges: a leaf is named twice")
        }
        return sorted
    }

    private static let malformed = MessageError(reason: "Invalid ranges: m is not the leaves of a range")
}
