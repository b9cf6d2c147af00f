import Tree

/// Collects the rows that it receives.
struct RowCollector: RowSink {
    struct Row {
        let pathBytes: [UInt8]
        let old: Node
        let new: Node

        var path: String { String(decoding: pathBytes, as: UTF8.self) }
    }

    private(set) var rows: [Row] = []

    mutating func row(_ path: [UInt8], old: Node, new: Node) {
        rows.append(Row(pathBytes: path, old: old, new: new))
    }

    /// Returns all rows of a tree, by the path's bytes.
    static func all(of tree: Node) -> [[UInt8]: Node] {
        var diff = RowDiff(RowCollector())
        diff.compare(.null, tree, changedAt: .root)
        return Dictionary(uniqueKeysWithValues: diff.sink.rows.map { ($0.pathBytes, $0.new) })
    }

    /// Builds the tree from its rows, in the order of their paths' bytes, as storage returns them.
    static func tree(of rows: [[UInt8]: Node]) -> Node {
        var builder = TreeBuilder()
        for (path, value) in rows.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            path.withUnsafeBytes { builder.add($0, value) }
        }
        return builder.finish()
    }
}
