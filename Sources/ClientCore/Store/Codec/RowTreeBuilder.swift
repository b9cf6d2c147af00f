public import Tree

/// Builds a tree from a store's rows in the order of their paths' bytes. Each row costs as much as its path differs
/// from the previous one, and every branch is built once.
public struct RowTreeBuilder {
    /// A node on the way to the current row.
    private struct Open {
        let key: Key
        /// The number of bytes of the path up to and including this key.
        let end: Int
        var priority: Node = .null
        var entries = ContiguousArray<ChildMap.Entry>()
    }

    private var stack: [Open] = [Open(key: Key(""), end: 0)]
    /// The path of the innermost open node.
    private var path: [UInt8] = []
    private var whole: Node = .null
    /// False once a row had an invalid path.
    public private(set) var isSound = true

    public init() {}

    /// Adds a row: the value at a path, from which the caller has removed the path of the tree's root.
    public mutating func add(_ row: UnsafeRawBufferPointer, _ node: Node) {
        if row.isEmpty {
            whole = node
            return
        }
        var shared = 0
        let most = min(path.count, row.count)
        while shared < most, path[shared] == row[shared] { shared += 1 }
        while stack[stack.count - 1].end > shared { closeLast() }
        var start = stack[stack.count - 1].end
        while true {
            guard stack.count <= RowPath.maxDepth, let end = row[start...].firstIndex(of: 0),
                let key = RowPath.key(row, start..<end)
            else {
                isSound = false
                break
            }
            if end + 1 == row.count {
                // A row contains everything below it, so it is not opened.
                if key == .priority {
                    stack[stack.count - 1].priority = node
                } else {
                    stack[stack.count - 1].entries.append(.init(key: key, node: node))
                }
                break
            }
            stack.append(Open(key: key, end: end + 1))
            start = end + 1
        }
        if path.count != start || shared < start {
            path.removeAll(keepingCapacity: true)
            path.append(contentsOf: row[..<start])
        }
    }

    /// Returns the tree. The builder is empty afterwards.
    public mutating func finish() -> Node {
        while stack.count > 1 { closeLast() }
        let root =
            stack[0].entries.isEmpty ? whole : Node(sorting: &stack[0].entries, priority: stack[0].priority)
        self = RowTreeBuilder()
        return root
    }

    private mutating func closeLast() {
        guard var last = stack.popLast() else { return }
        let node = Node(sorting: &last.entries, priority: last.priority)
        if !node.isNull { stack[stack.count - 1].entries.append(.init(key: last.key, node: node)) }
    }
}
