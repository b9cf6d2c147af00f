import Tree

/// Visits the records of a pattern in a value that is in memory.
enum RecordWalk {
    /// - Parameters:
    ///   - part: the part of the pattern at which the value is; the root's is the first.
    ///   - keys: the keys that were captured above it.
    static func each(
        _ pattern: PathPattern, in value: Node, at part: Int = 0, _ keys: [Key] = [],
        _ body: ([Key], Node) throws -> Void
    ) rethrows {
        var keys = keys
        try visit(value, pattern.parts.dropFirst(part), &keys, body)
    }

    private static func visit(
        _ node: Node, _ parts: ArraySlice<PathPattern.Part>, _ keys: inout [Key],
        _ body: ([Key], Node) throws -> Void
    ) rethrows {
        if node.isNull { return }
        guard let part = parts.first else { return try body(keys, node) }
        switch part {
        case .key(let key): try visit(node.child(key), parts.dropFirst(), &keys, body)
        case .capture:
            guard case .branch(let branch) = node else { return }
            for entry in branch.children {
                keys.append(entry.key)
                try visit(entry.node, parts.dropFirst(), &keys, body)
                keys.removeLast()
            }
        }
    }
}
