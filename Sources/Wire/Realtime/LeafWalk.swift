import Tree

/// One leaf of a tree, or the priority of an inner node as a leaf named `.priority`.
struct LeafRow: Equatable, Sendable {
    let path: Path
    /// A leaf, with its priority.
    let value: Node
}

/// Visits the leaves of a tree, with the priorities of inner nodes as leaves named `.priority`, in depth-first key order.
/// The walk needs memory for one path.
struct LeafWalk {
    /// Receives the keys of a leaf's path, the number of first keys that the path shares with the one before, and the
    /// leaf with its priority.
    typealias Visitor = (_ keys: [Key], _ shared: Int, _ value: Node) -> Void

    private var keys: [Key] = []
    private var shared = 0

    static func visit(_ node: Node, _ body: Visitor) {
        var walk = LeafWalk()
        walk.whole(node, body)
    }

    /// Visits the leaves after `start` (nil: from the first one) and up to `end`, inclusive (nil: to the last one). The
    /// cost is that of the leaves in the range and of two paths.
    static func visit(_ node: Node, after start: Path?, through end: Path?, _ body: Visitor) {
        if let start, let end, RangeMerge.order(start, end) >= 0 { return }
        var walk = LeafWalk()
        walk.part(node, start?.keys, end?.keys, body)
    }

    /// Returns the leaves after `start` and up to `end`.
    static func rows(_ node: Node, after start: Path?, through end: Path?) -> [LeafRow] {
        var rows: [LeafRow] = []
        visit(node, after: start, through: end) { keys, _, value in
            rows.append(LeafRow(path: Path(keys), value: value))
        }
        return rows
    }

    private mutating func emit(_ value: Node, _ body: Visitor) {
        body(keys, shared, value)
        shared = keys.count
    }

    private mutating func emit(priority: Node, _ body: Visitor) {
        keys.append(.priority)
        emit(priority, body)
        leave()
    }

    private mutating func leave() {
        keys.removeLast()
        shared = min(shared, keys.count)
    }

    private mutating func whole(_ node: Node, _ body: Visitor) {
        guard case .branch(let branch) = node else {
            if !node.isNull { emit(node, body) }
            return
        }
        let priority = branch.priority
        var isPending = !priority.isNull
        branch.children.forEachEntry { entry in
            if isPending, Key.priority < entry.key {
                emit(priority: priority, body)
                isPending = false
            }
            keys.append(entry.key)
            whole(entry.node, body)
            leave()
        }
        if isPending { emit(priority: priority, body) }
    }

    /// - Parameters:
    ///   - start: nil, or a path that begins with the present one: leaves up to it are skipped.
    ///   - end: nil, or a path that begins with the present one: leaves after it are skipped.
    private mutating func part(_ node: Node, _ start: [Key]?, _ end: [Key]?, _ body: Visitor) {
        if start == nil, end == nil { return whole(node, body) }
        guard case .branch(let branch) = node else {
            if start == nil, !node.isNull { emit(node, body) }
            return
        }
        let depth = keys.count
        // Nothing is below the end.
        if let end, end.count == depth { return }
        let first = start.flatMap { $0.count > depth ? $0[depth] : nil }
        let last = end.map { $0[depth] }
        let priority = branch.priority
        var isPending =
            !priority.isNull && (first.map { $0 < .priority } ?? true) && (last.map { .priority <= $0 } ?? true)
        func visit(_ entry: ChildMap.Entry) -> Bool {
            if let last, last < entry.key { return false }
            if isPending, Key.priority < entry.key {
                emit(priority: priority, body)
                isPending = false
            }
            keys.append(entry.key)
            part(entry.node, entry.key == first ? start : nil, entry.key == last ? end : nil, body)
            leave()
            return true
        }
        if let first {
            for entry in branch.children.entries(from: first) where !visit(entry) { break }
        } else {
            for entry in branch.children where !visit(entry) { break }
        }
        if isPending { emit(priority: priority, body) }
    }
}

extension Node {
    /// The path of the last leaf, or of the priority after it; nil for null.
    var lastLeafPath: Path? {
        var node = self
        var path = Path()
        while case .branch(let branch) = node {
            guard let last = branch.children.last else { break }
            if !branch.priority.isNull, last.key < .priority { return path.appending(.priority) }
            path.append(last.key)
            node = last.node
        }
        return node.isNull ? nil : path
    }

    /// Returns the first or the last leaf at or below this node, priorities of inner nodes excluded.
    func edgeLeaf(last: Bool, at path: Path) -> LeafRow? {
        var node = self
        var path = path
        while case .branch(let branch) = node {
            guard let entry = last ? branch.children.last : branch.children.first else { return nil }
            path.append(entry.key)
            node = entry.node
        }
        return node.isNull ? nil : LeafRow(path: path, value: node)
    }
}
