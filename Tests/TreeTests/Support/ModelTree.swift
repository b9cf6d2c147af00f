import Tree

/// A plain, slow tree of nested dictionaries.
indirect enum ModelTree: Equatable {
    case null
    case leaf(Node, priority: Node)
    case branch([Key: ModelTree], priority: Node)

    init(_ node: Node) {
        switch node {
        case .null: self = .null
        case .branch(let branch):
            var children: [Key: ModelTree] = [:]
            for entry in branch.children { children[entry.key] = ModelTree(entry.node) }
            self = .branch(children, priority: branch.priority)
        default: self = .leaf(node.withoutPriority, priority: node.priority)
        }
    }

    func replacing(_ keys: [Key], with value: Node) -> ModelTree {
        guard let key = keys.first else { return ModelTree(value) }
        if keys == [.priority] {
            switch self {
            case .null: return .null
            case .leaf(let leaf, _): return .leaf(leaf, priority: value)
            case .branch(let children, _): return .branch(children, priority: value)
            }
        }
        var children: [Key: ModelTree] = [:]
        var priority = Node.null
        switch self {
        case .null: break
        case .leaf(_, let old): priority = old
        case .branch(let old, let its): (children, priority) = (old, its)
        }
        let child = (children[key] ?? .null).replacing(Array(keys.dropFirst()), with: value)
        if case .null = child {
            // Null below a leaf has no effect.
            if case .leaf = self { return self }
            children[key] = nil
        } else {
            children[key] = child
        }
        return children.isEmpty ? .null : .branch(children, priority: priority)
    }

    /// Returns one row per leaf and one per priority, by the path's bytes.
    func rows(at path: String = "") -> [[UInt8]: Node] {
        switch self {
        case .null: return [:]
        case .leaf(let value, let priority):
            var rows = [Array((path.isEmpty ? "/" : path).utf8): value]
            if !priority.isNull { rows[Array((path + "/.priority").utf8)] = priority }
            return rows
        case .branch(let children, let priority):
            var rows: [[UInt8]: Node] = [:]
            if !priority.isNull { rows[Array((path + "/.priority").utf8)] = priority }
            for (key, child) in children { rows.merge(child.rows(at: path + "/" + key.text)) { old, _ in old } }
            return rows
        }
    }
}
