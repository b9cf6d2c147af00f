import LogStore
import Tree

/// The rows found by comparing two trees.
struct CollectedRows: RowSink {
    private(set) var rows: [[UInt8]: (old: Node, new: Node)] = [:]

    mutating func row(_ path: [UInt8], old: Node, new: Node) { rows[path] = (old, new) }

    /// Returns every row of a tree.
    static func of(_ root: Node) -> [[UInt8]: Node] {
        var diff = RowDiff(CollectedRows())
        diff.compare(.null, root, changedAt: .root)
        return diff.sink.rows.mapValues(\.new)
    }
}
