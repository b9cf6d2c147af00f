import Tree

/// A value without the texts in it that `jsonb` can't hold: those with U+0000.
struct StorableJSON {
    /// What is left, as a cell of a `jsonb` column.
    let cell: Cell
    /// The texts that are left out, with their places in the value, in the order of their keys. There is at least one.
    let leftOut: [(path: Path, value: Node)]

    /// Nil for a value that is no object, one that `jsonb` holds as a whole, and one of which nothing would be left.
    init?(_ value: Node) {
        guard value.isBranch else { return nil }
        var found: [(path: Path, value: Node)] = []
        Self.gather(value, .root, &found)
        guard !found.isEmpty else { return nil }
        var left = value
        for text in found { left = left.replacing(text.path, with: .null) }
        guard !left.isNull, case .cell(let cell) = Conversion.convert(left, to: .jsonb) else { return nil }
        self.cell = cell
        leftOut = found
    }

    private static func gather(_ node: Node, _ path: Path, _ found: inout [(path: Path, value: Node)]) {
        switch node.isLeaf ? node.withoutPriority : node {
        case .string(let text) where text.utf8.contains(0): found.append((path, node))
        case .branch(let branch):
            for entry in branch.children { gather(entry.node, path.appending(entry.key), &found) }
        default: break
        }
    }
}
