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

    private static func single(_ key: Key, _ node: Node, priority: Node) -> Node {
        .branch(Branch(priority: priority, children: ChildMap(sorted: [.init(key: key, node: node)])))
    }
}
