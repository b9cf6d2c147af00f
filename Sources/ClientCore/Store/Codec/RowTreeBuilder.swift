public import Tree

/// Builds a tree out of a store's rows, which come in the order of their paths' bytes: each row costs what its path
/// differs from the one before, and every branch is made once.
public struct RowTreeBuilder {
    /// A node on the way to the current row.
    private struct Open {
        let key: Key
        /// How many bytes the path up to and with this key has.
        let end: Int
        var priority: Node = .null
        var entries = ContiguousArray<ChildMap.Entry>()
    }

    private var stack: [Open] = [Open(key: Key(""), end: 0)]
    /// Of the innermost node that is open.
    private var path: [UInt8] = []
    private var whole: Node = .null
    /// False once a row had a path that is none.
    public private(set) var isSound = true

    public init() {}

    /// Adds a row: the value at a path, of which the caller has cut off what the tree's root lies at.
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
                // A row holds all that is below it, so it need not be opened.
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

    /// The tree. The builder is empty afterwards.
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
