import Postgres
import Tree

extension LogConnection {
    /// Reads the current nodes at and below a path, into an otherwise empty tree, and the head, in one snapshot of the
    /// database. If a leaf is above the path, the tree is that leaf. Priorities above the path are not read.
    func loadPart(_ namespace: Int64, at path: Path) throws -> (head: Int64, root: Node) {
        try readingPatiently {
            try inReadTransaction(Self.streaming) {
                let row = try postgres.execute(
                    "select head from pathmirror.namespace where id = $1", [.int8(namespace)])
                guard row.rowCount == 1 else { throw LogStoreError.unknownNamespace("\(namespace)") }
                return (try row.int64(0, 0), try loadPartNow(namespace, at: path))
            }
        }
    }

    private func loadPartNow(_ namespace: Int64, at path: Path) throws -> Node {
        var builder = TreeBuilder()
        guard !path.isRoot else {
            try forEachNode(namespace) { text, value, isLong in
                if isLong {
                    builder.addUnordered(Path(splitting: String(decoding: text, as: UTF8.self)), value)
                } else {
                    builder.add(text, value)
                }
            }
            return builder.finish()
        }
        if let leaf = try leaf(namespace, above: path) { return leaf }
        // Rows below longer paths do not come in the order of their paths.
        guard path.byteCount <= 1_900 else {
            return Node.null.replacing(path, with: try readSubtrees(namespace, [path])[0].value)
        }
        let own = try readLeaf(namespace, path)
        if !own.isNull { Array(path.description.utf8).withUnsafeBytes { builder.add($0, own) } }
        var leaves = LeafReader()
        try forEachRow(namespace, below: path) { row in
            let value = try leaves.read(row.value)
            if row.isLong {
                builder.addUnordered(Path(splitting: String(decoding: row.path, as: UTF8.self)), value)
            } else {
                builder.add(row.path, value)
            }
        }
        return builder.finish()
    }

    /// The tree that is nothing but the leaf above a path; nil if there is none.
    private func leaf(_ namespace: Int64, above path: Path) throws -> Node? {
        for depth in 0..<path.depth {
            let ancestor = path.prefix(depth)
            let value = try readLeaf(namespace, ancestor)
            if !value.isNull { return Node.null.replacing(ancestor, with: value) }
        }
        return nil
    }

    /// Whether there is a node at a path.
    func hasNode(_ namespace: Int64, _ path: Path) throws -> Bool {
        try postgres.execute(
            "select pathmirror.has_node($1, $2)",
            [.int8(namespace), .text(path.isRoot ? "" : path.description)]
        ).bool(0, 0)
    }

    /// Reads the row of a path, which is a leaf's or, if the path names one, a priority's; null if there is none.
    func readLeaf(_ namespace: Int64, _ path: Path) throws -> Node {
        let rows = try postgres.execute(
            "select value::text from pathmirror.node where namespace_id = $1 and path = $2",
            [.int8(namespace), .textBytes(StoredPath(Array(path.description.utf8)).key)])
        guard rows.rowCount == 1 else { return .null }
        return try rows.withBytes(0, 0) { try JSONParser.parse($0) } ?? .null
    }
}
