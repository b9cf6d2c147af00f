internal import ClientCore
internal import SQLite
internal import Tree

/// Reads of the server's data.
extension StoreFile {
    /// A row and the subtree it contains.
    struct Row {
        let path: [UInt8]
        let node: Node
        let byteCount: Int

        /// The number of keys in the row's path.
        var depth: Int { path.reduce(0) { $1 == 0 ? $0 + 1 : $0 } }
    }

    /// Returns the data at and below a path.
    func serverData(at path: Path) throws(SQLiteError) -> Node {
        let key = RowPath.encode(path)
        if let row = try row(covering: key) { return row.node[path.dropFirst(row.depth)] }
        return try rows(below: key)
    }

    /// Returns some children of a path.
    func serverData(at path: Path, children: Set<Key>) throws(SQLiteError) -> Node {
        let key = RowPath.encode(path)
        var entries = ContiguousArray<ChildMap.Entry>()
        if let row = try row(covering: key) {
            let node = row.node[path.dropFirst(row.depth)]
            for child in children { entries.append(.init(key: child, node: node.child(child))) }
        } else {
            for child in children {
                var childKey = key
                RowPath.append(child, to: &childKey)
                let node = if let row = try row(covering: childKey) { row.node } else { try rows(below: childKey) }
                entries.append(.init(key: child, node: node))
            }
        }
        return Node(sorting: &entries, priority: .null)
    }

    /// Returns the row that contains the data at a path: the row of the path itself or of an ancestor. Returns nil if there is no
    /// data, or if the path's node is split over several rows.
    func row(covering key: [UInt8]) throws(SQLiteError) -> Row? {
        try cover.bind(1, key)
        guard try cover.step() else { return nil }
        defer { cover.reset() }
        let found = cover.rawBytes(0)
        guard found.count <= key.count, key.starts(with: found) else { return nil }
        let path = Array(found)
        let bytes = cover.rawBytes(1)
        guard let node = NodeCodec.decode(bytes) else { throw Self.damage("value") }
        return Row(path: path, node: node, byteCount: path.count + bytes.count)
    }

    /// Returns the tree of all rows below a path that no row covers, in one scan.
    private func rows(below key: [UInt8]) throws(SQLiteError) -> Node {
        let scan = key.isEmpty ? all : range
        if !key.isEmpty {
            try range.bind(1, key)
            try range.bind(2, RowPath.end(key))
        }
        var builder = RowTreeBuilder()
        while try scan.step() {
            let path = scan.rawBytes(0)
            guard path.count > key.count, let node = NodeCodec.decode(scan.rawBytes(1)) else {
                scan.reset()
                throw Self.damage("value")
            }
            builder.add(UnsafeRawBufferPointer(rebasing: path[key.count...]), node)
        }
        guard builder.isSound else { throw Self.damage("path") }
        return builder.finish()
    }
}
