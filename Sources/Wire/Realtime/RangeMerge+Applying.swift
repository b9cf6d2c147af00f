public import Tree

extension RangeMerge {
    /// What a client has after these ranges, which are those of one message, in order: all its leaves in the ranges are
    /// replaced by what the ranges bring; its others stay, those that the ranges repeat as well (reference: rtdb-protocol 3.7).
    ///
    /// Linear in the leaves of the node and of the ranges, times their depth.
    public static func apply(_ ranges: [RangeMerge], to node: Node) -> Node {
        var kept: [LeafRows.Row] = []
        var next = ranges[...]
        for row in LeafRows(node).rows {
            while let range = next.first, range.ends(before: row.path) { next = next.dropFirst() }
            if let range = next.first, range.begins(before: row.path) { continue }
            kept.append(row)
        }
        let rows = kept + ranges.flatMap(\.rows)
        var tree = Node.null
        for row in rows where !row.path.namesPriority { tree = tree.replacing(row.path, with: row.value) }
        // Priorities last: a node has to be there to have one.
        for row in rows where row.path.namesPriority { tree = tree.replacing(row.path, with: row.value) }
        return tree
    }

    private func begins(before path: Path) -> Bool { start.map { Self.order($0, path) < 0 } ?? true }

    private func ends(before path: Path) -> Bool { end.map { Self.order($0, path) < 0 } ?? false }
}
