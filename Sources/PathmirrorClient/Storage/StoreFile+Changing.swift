internal import ClientCore
internal import SQLite
internal import Tree

/// Changes of the server's data.
extension StoreFile {
    /// Replaces the data at and below a path.
    func setServerData(_ node: Node, at path: Path) throws(SQLiteError) {
        if path.namesPriority, let parent = path.parent { return try setPriority(node, at: parent) }
        let key = RowPath.encode(path)
        if let row = try row(covering: key) {
            try rewrite(
                row, row.path.count == key.count ? node : row.node.replacing(path.dropFirst(row.depth), with: node))
        } else {
            try removeRows(from: key, to: key.isEmpty ? nil : RowPath.end(key))
            if !node.isNull { try store(node, at: key) }
        }
        if node.isNull { try removePrioritiesOfNothing(above: path) }
    }

    private func setPriority(_ priority: Node, at path: Path) throws(SQLiteError) {
        let key = RowPath.encode(path)
        if let row = try row(covering: key) {
            let location = path.dropFirst(row.depth).appending(.priority)
            return try rewrite(row, row.node.replacing(location, with: priority))
        }
        guard try hasRows(from: key, to: key.isEmpty ? nil : RowPath.end(key)) else { return }
        var row = key
        RowPath.append(.priority, to: &row)
        if let old = try self.row(covering: row) { try remove(old) }
        if !priority.isNull { try put(priority, at: row) }
    }

    /// Removes the data at and below `path`, except at and below the paths in `keeping`.
    func prune(below path: Path, keeping: [Path]) throws(SQLiteError) {
        let key = RowPath.encode(path)
        if let row = try row(covering: key) {
            let location = path.dropFirst(row.depth)
            let kept = row.node[location].keeping(keeping.filter(path.contains).map { $0.relative(to: path) })
            let isWholeKept = keeping.contains { $0.contains(path) }
            if !isWholeKept { try rewrite(row, row.node.replacing(location, with: kept)) }
            return try removePrioritiesOfNothing(above: path)
        }
        var kept: [(key: [UInt8], path: Path)] = []
        for location in keeping {
            if location.contains(path) { return }
            if path.contains(location) { kept.append((RowPath.encode(location), location)) }
        }
        kept.sort { $0.key.lexicographicallyPrecedes($1.key) }
        // A kept path within another kept path sorts between the start and the end of the latter, so it is redundant.
        var from = key
        kept.removeAll { location in
            defer { if !location.key.lexicographicallyPrecedes(from) { from = RowPath.end(location.key) } }
            return location.key.lexicographicallyPrecedes(from)
        }
        // Kept parts of rows to be removed are stored again afterwards.
        var parts: [(key: [UInt8], node: Node)] = []
        for location in kept {
            if let row = try row(covering: location.key), row.path.count < location.key.count {
                parts.append((location.key, row.node[location.path.dropFirst(row.depth)]))
            }
        }
        from = key
        for location in kept {
            try removeRows(from: from, to: location.key)
            from = RowPath.end(location.key)
        }
        try removeRows(from: from, to: key.isEmpty ? nil : RowPath.end(key))
        for part in parts where !part.node.isNull { try store(part.node, at: part.key) }
        try removePrioritiesOfNothing(above: path)
    }

    // MARK: Rows

    /// Replaces a row by the rows of another value at its path.
    private func rewrite(_ row: Row, _ node: Node) throws(SQLiteError) {
        if let bytes = encoded(node) { return try put(bytes, at: row.path, instead: row.byteCount) }
        try remove(row)
        if !node.isNull { try store(node, at: row.path) }
    }

    /// Stores a value at a path without data: in one row if the value is small, and otherwise by children.
    private func store(_ node: Node, at key: [UInt8]) throws(SQLiteError) {
        if let bytes = encoded(node) { return try put(bytes, at: key, instead: 0) }
        guard case .branch(let branch) = node else { return }
        if !branch.priority.isNull {
            var row = key
            RowPath.append(.priority, to: &row)
            try put(branch.priority, at: row)
        }
        for entry in branch.children {
            var row = key
            RowPath.append(entry.key, to: &row)
            try store(entry.node, at: row)
        }
    }

    /// Returns the bytes of the value's single row, or nil if the value is null or must be split.
    private func encoded(_ node: Node) -> [UInt8]? {
        guard !node.isNull else { return nil }
        guard node.isBranch else { return NodeCodec.encode(node) }
        return node.rowCount <= layout.maxLeaves ? NodeCodec.encode(node, limit: layout.maxBytes) : nil
    }

    /// Stores the priority of a node that is split over several rows.
    private func put(_ priority: Node, at row: [UInt8]) throws(SQLiteError) {
        if !hasPriorityRows {
            hasPriorityRows = true
            try put(1, as: "has_priority_rows")
        }
        try put(NodeCodec.encode(priority), at: row, instead: 0)
    }

    private func put(_ bytes: [UInt8], at key: [UInt8], instead oldCount: Int) throws(SQLiteError) {
        try putRow.bind(1, key)
        try putRow.bind(2, bytes)
        try putRow.run()
        cacheBytes += key.count + bytes.count - oldCount
    }

    private func remove(_ row: Row) throws(SQLiteError) {
        try deleteRow.bind(1, row.path)
        try deleteRow.run()
        cacheBytes -= row.byteCount
    }

    /// Removes the rows from `start` up to `end`, or up to the last row if `end` is nil.
    private func removeRows(from start: [UInt8], to end: [UInt8]?) throws(SQLiteError) {
        // Greater than every path, because keys contain no byte 0xFF.
        let end = end ?? [0xFF]
        try rangeSize.bind(1, start)
        try rangeSize.bind(2, end)
        guard try rangeSize.step() else { return }
        let count = rangeSize.integer(0)
        let size = Int(rangeSize.integer(1))
        rangeSize.reset()
        guard count > 0 else { return }
        try deleteRange.bind(1, start)
        try deleteRange.bind(2, end)
        try deleteRange.run()
        cacheBytes -= size
    }

    private func hasRows(from start: [UInt8], to end: [UInt8]?) throws(SQLiteError) -> Bool {
        try range.bind(1, start)
        try range.bind(2, end ?? [0xFF])
        defer { range.reset() }
        return try range.step()
    }

    /// Removes the priority rows of ancestors that have become empty.
    private func removePrioritiesOfNothing(above path: Path) throws(SQLiteError) {
        guard hasPriorityRows else { return }
        var location = path
        while let parent = location.parent {
            location = parent
            let key = RowPath.encode(location)
            var row = key
            RowPath.append(.priority, to: &row)
            if try hasRows(from: RowPath.end(row), to: key.isEmpty ? nil : RowPath.end(key)) { return }
            if let old = try self.row(covering: row), old.path.count == row.count { try remove(old) }
        }
    }
}
