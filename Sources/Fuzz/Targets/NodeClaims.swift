import Tree

/// Properties of any value, error and change. Each function returns the violated property, or nil.
enum NodeClaims {
    /// Checks that an error has a position inside the text, or directly after its end.
    static func error(_ error: JSONError, in input: [UInt8], _ summary: inout Summary) -> String? {
        summary.note(error.reason)
        if error.reason.isEmpty { return "an error without a reason" }
        guard error.line >= 1, error.column >= 1 else {
            return "an error at line \(error.line), column \(error.column)"
        }
        let lines = input.split(separator: 0x0A, omittingEmptySubsequences: false)
        guard error.line <= lines.count else { return "an error in line \(error.line) of \(lines.count)" }
        // The column after a line's last byte is that of its newline, or of the end.
        guard error.column <= lines[error.line - 1].count + 1 else { return "an error beyond its line: \(error)" }
        return nil
    }

    /// Checks that a parsed value is unchanged after it is written and read again.
    static func value(_ node: Node, _ summary: inout Summary) -> String? {
        summary.noteSize(node.rowCount)
        summary.noteSize(node.childCount)
        let text = JSONWriter.encode(node, form: .export)
        guard let again = try? JSONParser.parse(text) else { return "the written form is refused" }
        guard again.node == node else { return "the written form reads as another value" }
        guard JSONWriter.encode(again.node, form: .export) == text else { return "the written form is not stable" }
        guard again.node.hash == node.hash, again.node.rowCount == node.rowCount else { return "hash or count differ" }
        let pretty = JSONWriter.encode(node, form: .export, pretty: true)
        guard let parsed = try? JSONParser.parse(pretty), parsed.node == node else { return "the pretty form differs" }
        // The plain form loses only priorities, so it is stable from then on.
        let plain = JSONWriter.encode(node, form: .plain)
        guard let bare = try? JSONParser.parse(plain), JSONWriter.encode(bare.node, form: .plain) == plain else {
            return "the plain form is not stable"
        }
        return nil
    }

    /// Checks that the rows of a value without server values form its tree, and are the difference from the base.
    static func stored(_ node: Node, replacing path: Path = .root, in base: Node = .null) -> String? {
        let tree = base.replacing(path, with: node)
        var rows = Rows.of(base)
        var diff = RowDiff(Rows())
        diff.compare(base, tree, changedAt: path)
        for change in diff.sink.changes {
            if change.old == change.new { return "a row that does not change" }
            if rows.updateValue(change.new, forKey: change.path) ?? .null != change.old {
                return "a row's old value is wrong"
            }
            if change.new.isNull { rows[change.path] = nil }
        }
        guard rows == Rows.of(tree) else { return "the changed rows do not make the new tree" }
        guard rows.count == tree.rowCount else { return "\(rows.count) rows, counted as \(tree.rowCount)" }
        var builder = TreeBuilder()
        for (path, value) in rows.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            path.withUnsafeBytes { builder.add($0, value) }
        }
        guard builder.finish() == tree else { return "the rows build another tree" }
        return nil
    }

    /// Collects rows with their paths.
    private struct Rows: RowSink {
        var changes: [(path: [UInt8], old: Node, new: Node)] = []

        mutating func row(_ path: [UInt8], old: Node, new: Node) {
            changes.append((path, old, new))
        }

        static func of(_ tree: Node) -> [[UInt8]: Node] {
            var diff = RowDiff(Rows())
            diff.compare(.null, tree, changedAt: .root)
            return Dictionary(diff.sink.changes.map { ($0.path, $0.new) }) { _, last in last }
        }
    }
}
