import Engine
import Rules
import Tree

/// A query and its path. Uses an ordered index if the rules declare one.
struct Selection: Sendable {
    private let query: Query?
    private let path: Path
    private let indexes: IndexCache
    private let isDeclared: Bool
    private let isFollowed: Bool

    /// - Parameter isFollowed: whether the query is evaluated again after every change.
    init(
        _ query: Query?, at path: Path, _ namespace: LiveNamespace, _ snapshot: Snapshot, isFollowed: Bool = false
    ) {
        self.isFollowed = isFollowed
        self.query = query
        self.path = path
        indexes = namespace.indexes
        isDeclared = query.map { snapshot.rules.set.isIndexed($0.index, at: path) } ?? false
    }

    /// Returns the part of the path's node that the query selects.
    func select(from node: Node) -> Node {
        guard let query else { return node }
        return indexes.select(query, from: node, at: path, isDeclared: isDeclared, isFollowed: isFollowed)
    }
}
