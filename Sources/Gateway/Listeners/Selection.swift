import Engine
import Rules
import Tree

/// A query and where it is asked: by an ordered index where the rules declare one.
struct Selection: Sendable {
    private let query: Query?
    private let path: Path
    private let indexes: IndexCache
    private let isDeclared: Bool
    private let isFollowed: Bool

    /// - Parameter isFollowed: whether it is asked for again after every change.
    init(
        _ query: Query?, at path: Path, _ namespace: LiveNamespace, _ snapshot: Snapshot, isFollowed: Bool = false
    ) {
        self.isFollowed = isFollowed
        self.query = query
        self.path = path
        indexes = namespace.indexes
        isDeclared = query.map { snapshot.rules.set.isIndexed($0.index, at: path) } ?? false
    }

    /// What is selected of the node at the path.
    func select(from node: Node) -> Node {
        guard let query else { return node }
        return indexes.select(query, from: node, at: path, isDeclared: isDeclared, isFollowed: isFollowed)
    }
}
