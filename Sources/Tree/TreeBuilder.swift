/// Builds a tree out of rows of storage that come sorted by their path's bytes: each row costs what its path differs
/// from the one before, and every branch is made once.
public struct TreeBuilder {
    /// A node on the way to the current row.
    private struct Open {
        var key: Key
        /// Bytes of the path text up to and including this key.
        var pathLength: Int
        var leaf: Node = .null
        var priority: Node = .null
        var entries = ContiguousArray<ChildMap.Entry>()
    }

    /// The root and the nodes down to the current row.
    private var stack: [Open] = [Open(key: Key(""), pathLength: 0)]
    private var path: [UInt8] = []
    /// Rows that came out of order, which long paths do.
    private var late: [(Path, Node)] = []

    public init() {}

    /// Adds the row at `text` (`/a/b`; `/` for the root's leaf; `…/.priority`).
    public mutating func add(_ text: UnsafeRawBufferPointer, _ value: Node) {
        var shared = 0
        let most = min(path.count, text.count)
        while shared < most, path[shared] == text[shared] { shared += 1 }
        // Keep the open nodes whose whole key is shared.
        while let last = stack.last, stack.count > 1,
            last.pathLength > shared || (last.pathLength < text.count && text[last.pathLength] != UInt8(ascii: "/"))
        {
            closeLast()
        }
        var start = stack[stack.count - 1].pathLength
        while start + 1 < text.count {
            var end = start + 1
            while end < text.count, text[end] != UInt8(ascii: "/") { end += 1 }
            let key = Key(String(decoding: text[(start + 1)..<end], as: UTF8.self))
            if end == text.count, key == .priority {
                stack[stack.count - 1].priority = value
                path = Array(text[..<start])
                return
            }
            stack.append(Open(key: key, pathLength: end))
            start = end
        }
        stack[stack.count - 1].leaf = value
        path = Array(text)
    }

    /// Adds a row wherever it belongs, at the price of a change to the finished tree.
    public mutating func addUnordered(_ path: Path, _ value: Node) {
        late.append((path, value))
    }

    /// The tree. The builder is empty afterwards.
    public mutating func finish() -> Node {
        while stack.count > 1 { closeLast() }
        let priority = stack[0].priority
        var root = Self.node(&stack[0])
        if root.isNull, !priority.isNull { late.append((Path([.priority]), priority)) }
        // Priorities last: a node must be there to have one.
        for (path, value) in late where !path.namesPriority { root = root.replacing(path, with: value) }
        for (path, value) in late where path.namesPriority { root = root.replacing(path, with: value) }
        self = TreeBuilder()
        return root
    }

    private mutating func closeLast() {
        guard var last = stack.popLast() else { return }
        let parent = stack.count - 1
        if last.entries.isEmpty, last.leaf.isNull {
            // `/a` and `/a/.priority` may have rows such as `/a b` between them.
            let priority = last.priority
            if let index = stack[parent].entries.lastIndex(where: { $0.key == last.key }) {
                let node = stack[parent].entries[index].node
                stack[parent].entries[index] = .init(key: last.key, node: node.withPriority(priority))
            } else if !priority.isNull {
                // All of the node's children may be late.
                late.append((Path(stack.dropFirst().map(\.key) + [last.key, .priority]), priority))
            }
            return
        }
        let node = Self.node(&last)
        if !node.isNull { stack[parent].entries.append(.init(key: last.key, node: node)) }
    }

    private static func node(_ open: inout Open) -> Node {
        if open.entries.isEmpty { return open.leaf.withPriority(open.priority) }
        return Node(sorting: &open.entries, priority: open.priority)
    }
}
