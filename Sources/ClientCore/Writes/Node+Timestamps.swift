import Tree

extension Node {
    /// The value with its timestamps filled in, and its increments left as they are. Shares what holds none.
    func withTimestamps(_ timestamp: Int64) -> Node {
        switch self {
        case .serverValue(let value): value.kind == .timestamp ? .int(timestamp) : self
        case .prioritized(let leaf):
            leaf.value.withTimestamps(timestamp).withPriority(leaf.priority.withTimestamps(timestamp))
        case .branch(let branch):
            branch.children.reduce(withPriority(branch.priority.withTimestamps(timestamp))) { node, entry in
                let child = entry.node.withTimestamps(timestamp)
                return child.isIdentical(to: entry.node) ? node : node.replacingChild(entry.key, with: child)
            }
        default: self
        }
    }
}
