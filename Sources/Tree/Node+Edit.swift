extension Node {
    /// The tree with the node at `path` replaced (null: removed), as the protocol does it:
    /// - ancestors that become empty disappear, with their priorities;
    /// - a leaf on the way down becomes a branch and keeps its priority; writing null below a leaf changes nothing;
    /// - a path that ends in `.priority` sets the priority of what is there (nothing there: no change).
    public func replacing(_ path: Path, with value: Node) -> Node {
        replacing(path.keys[...], with: value)
    }

    private func replacing(_ keys: ArraySlice<Key>, with value: Node) -> Node {
        guard let key = keys.first else { return value }
        if keys.count == 1, key == .priority { return withPriority(value) }
        let rest = keys.dropFirst()
        switch self {
        case .branch(let branch):
            let old = branch.children[key] ?? .null
            let new = old.replacing(rest, with: value)
            if new.isIdentical(to: old) { return self }
            let children = branch.children.replacing(key, with: new)
            return children.count == 0 ? .null : .branch(Branch(priority: branch.priority, children: children))
        case .null:
            let new = Node.null.replacing(rest, with: value)
            return new.isNull ? .null : .single(key, new, priority: .null)
        default:
            let new = Node.null.replacing(rest, with: value)
            return new.isNull ? self : .single(key, new, priority: priority)
        }
    }

    /// The tree with one child replaced, or (null) taken out, as `replacing` does it.
    public func replacingChild(_ key: Key, with value: Node) -> Node {
        switch self {
        case .branch(let branch):
            if value.isIdentical(to: branch.children[key] ?? .null) { return self }
            let children = branch.children.replacing(key, with: value)
            return children.count == 0 ? .null : .branch(Branch(priority: branch.priority, children: children))
        case .null: return value.isNull ? .null : .single(key, value, priority: .null)
        default: return value.isNull ? self : .single(key, value, priority: priority)
        }
    }

    private static func single(_ key: Key, _ node: Node, priority: Node) -> Node {
        .branch(Branch(priority: priority, children: ChildMap(sorted: [.init(key: key, node: node)])))
    }
}
