import Tree
import Wire

/// What the server has sent of a filtered query: whole children, as many as the query selects.
struct ServerSet {
    /// Without the node's own priority.
    var node = Node.null
    /// Whether the server has sent all that the query selects.
    var isComplete = false
    /// As of which entry that is, where the server has said so.
    var mark: LogMark?
    /// Whether it has taken on writes that the server has accepted: it may be more than the query selects, or less.
    var isAssumed = false

    /// Takes a value at a place below the query's. What would change a child that isn't there is left out, as such a
    /// child wouldn't be complete. Returns the child that may have changed.
    mutating func apply(_ value: Node, at path: Path, of query: Query) -> Key? {
        guard path.depth > 0, path[0] != .priority else { return nil }
        let key = path[0]
        if path.depth == 1 {
            node = node.replacingChild(key, with: value)
        } else {
            guard !node.child(key).isNull else { return nil }
            node = node.replacing(path, with: value)
        }
        let child = node.child(key)
        if !child.isNull, !query.admits(key, child) { node = node.replacingChild(key, with: .null) }
        return key
    }

    /// A child was brought up to date by another listen: the set is as of one entry only if that is no later.
    mutating func mix(_ other: LogMark?) {
        guard let other, let own = mark, other.seq <= own.seq else {
            mark = nil
            return
        }
    }

    /// Drops what is beyond the query's limit. Returns what went.
    mutating func trim(to query: Query) -> [Key] {
        guard let limit = query.limit else { return [] }
        let count =
            switch limit {
            case .first(let count), .last(let count): count
            }
        guard node.childCount > count, case .branch(let branch) = node else { return [] }
        let selected = query.select(from: node)
        defer { node = selected }
        return branch.children.filter { selected.child($0.key).isNull }.map(\.key)
    }
}
