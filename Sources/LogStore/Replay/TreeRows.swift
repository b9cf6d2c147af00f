public import Tree

/// The rows of a tree in storage.
public enum TreeRows {
    /// Calls `body` for each leaf and each priority. The rows of every branch come together, with its priority last.
    public static func forEach(
        in root: Node, at path: Path = .root, _ body: (_ path: [UInt8], _ value: Node) throws -> Void
    ) rethrows {
        var text = path.isRoot ? [] : Array(path.description.utf8)
        try walk(root, &text, body)
    }

    private static func walk(
        _ node: Node, _ path: inout [UInt8], _ body: (_ path: [UInt8], _ value: Node) throws -> Void
    ) rethrows {
        if node.isLeaf { try body(path.isEmpty ? [UInt8(ascii: "/")] : path, node.withoutPriority) }
        if case .branch(let branch) = node {
            let length = path.count
            for entry in branch.children {
                path.append(UInt8(ascii: "/"))
                path.append(contentsOf: entry.key.text.utf8)
                try walk(entry.node, &path, body)
                path.removeSubrange(length...)
            }
        }
        // The node comes before its priority, even if rows are split into several entries.
        if !node.priority.isNull { try body(path + Array("/.priority".utf8), node.priority) }
    }
}

/// Writes a tree as JSON in export form, piece by piece. The text is never in memory as a whole.
public struct TreeWriter {
    private var writer = JSONWriter(form: .export)
    private let send: ([UInt8]) throws -> Void
    private static let flushBytes = 256 * 1024
    /// The maximum number of rows of subtrees that are written at once.
    private static let rowsAtOnce = 1_000

    /// Sends the tree's JSON text in pieces of bounded size, followed by a line feed.
    public static func write(_ root: Node, _ send: @escaping ([UInt8]) throws -> Void) throws {
        var tree = TreeWriter(send: send)
        try tree.write(root)
        try send(tree.writer.bytes + [0x0A])
    }

    private init(send: @escaping ([UInt8]) throws -> Void) { self.send = send }

    private mutating func write(_ node: Node) throws {
        guard case .branch(let branch) = node, branch.rowCount > Self.rowsAtOnce else { return writer.write(node) }
        writer.beginObject()
        var isFirst = true
        for entry in branch.children {
            writer.writeKey(entry.key.text, isFirst: isFirst)
            isFirst = false
            try write(entry.node)
            if writer.bytes.count >= Self.flushBytes {
                try send(writer.bytes)
                writer.removeAll()
            }
        }
        if !branch.priority.isNull {
            writer.writeKey(".priority", isFirst: false)
            writer.write(branch.priority)
        }
        writer.endObject()
    }
}
