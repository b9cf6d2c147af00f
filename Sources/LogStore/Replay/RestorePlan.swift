public import Tree

/// The changes that writing an earlier tree into a namespace makes, computed at one head.
public struct RestorePlan: Sendable {
    public enum Mode: Sendable {
        /// Replaces all data at the path by the earlier data.
        case replace
        /// Restores missing nodes, and changes nothing else.
        case missingOnly
    }

    /// The head of the namespace that the plan belongs to; 0 for a new namespace.
    public let head: Int64
    /// The nodes to write.
    public let writes: [Change]
    /// The rows that are added, changed and removed.
    public let summary: RowSummary

    /// Compares with a tree in memory.
    ///
    /// - Parameters:
    ///   - part: the earlier tree's node at the path.
    ///   - now: the namespace's tree at `head`: the data at, above and below the path.
    public init(_ part: Node, at path: Path, over now: Node, head: Int64, _ mode: Mode) {
        self.head = head
        let whole: Node
        switch mode {
        case .replace:
            writes = [Change(path: path, value: part)]
            whole = now.replacing(path, with: part)
        case .missingOnly:
            writes = MissingNodes.find(of: Node.null.replacing(path, with: part), in: now, below: path)
            whole = now.replacing(writes)
        }
        summary = RowSummary(from: now, to: whole, below: path)
    }

    /// Reads the namespace's tree below the path, and compares with it.
    public init(
        _ connection: LogConnection, _ part: Node, into namespace: NamespaceRecord?, at path: Path, _ mode: Mode
    ) throws {
        guard let namespace else {
            self.init(part, at: path, over: .null, head: 0, mode)
            return
        }
        let (head, now) = try connection.loadPart(namespace.id, at: path)
        self.init(part, at: path, over: now, head: head, mode)
    }

    /// The number of rows to write.
    public var rowCount: Int { writes.reduce(0) { $0 + $1.value.rowCount } }
}
