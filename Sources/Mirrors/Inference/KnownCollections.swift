import Tree

/// The collections of a namespace that stand by themselves, by whose keys other places are recognized: a map whose keys
/// are those of `/users` is one of users, however few there are.
struct KnownCollections {
    private var collections: [(name: String, keys: Set<Key>)] = []

    private static let maxDepth = 4
    /// The share of a map's keys that a collection has to have: a user may be gone whose votes are still there.
    private static let most = 0.8

    /// Knows none.
    init() {}

    /// Finds them in a whole tree.
    init(in root: Node) { gather(root, nil, 0) }

    private mutating func gather(_ node: Node, _ key: Key?, _ depth: Int) {
        guard case .branch(let branch) = node, depth <= Self.maxDepth else { return }
        if let key, case .collection(let keys) = Shape([node]) {
            // What has indexes or days for keys says nothing of others that have them.
            guard keys == .other, branch.children.count > 1, Shape(branch.children.lazy.map(\.node)) == .record else {
                return
            }
            let name = InferredNames.singular(InferredNames.column([key]))
            collections.append((name, Set(branch.children.lazy.map(\.key))))
            return
        }
        for entry in branch.children { gather(entry.node, entry.key, depth + 1) }
    }

    /// What one of a collection is called whose keys these are, such as `user`.
    func name(of keys: Set<Key>) -> String? {
        guard !keys.isEmpty else { return nil }
        if let all = collections.first(where: { keys.isSubset(of: $0.keys) }) { return all.name }
        return collections.first { known in
            Double(keys.count { known.keys.contains($0) }) >= Self.most * Double(keys.count)
        }?.name
    }
}
