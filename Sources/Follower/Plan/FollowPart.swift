import ClientCore
import Tree

/// A part of an upstream's tree that one listen follows: everything at a path, or its children in a range of keys.
struct FollowPart: Sendable, Hashable, CustomStringConvertible {
    /// A bound of a range of keys.
    struct Bound: Sendable, Hashable {
        let key: Key
        let isInclusive: Bool

        init(_ key: Key, isInclusive: Bool) {
            self.key = key
            self.isInclusive = isInclusive
        }
    }

    let path: Path
    /// Whether the part is a range of the path's children. Otherwise the part is the whole value at the path.
    let isRange: Bool
    /// The bounds of a range; nil for the beginning and the end of all keys.
    let start: Bound?
    let end: Bound?

    /// Creates the part of everything at a path.
    init(whole path: Path) {
        self.path = path
        isRange = false
        start = nil
        end = nil
    }

    /// Creates the part of a path's children in a range.
    init(_ path: Path, from start: Bound?, to end: Bound?) {
        self.path = path
        isRange = true
        self.start = start
        self.end = end
    }

    /// The query of the part's listen.
    var spec: QuerySpec {
        guard isRange else { return QuerySpec(path: path) }
        func bound(_ bound: Bound?) -> Query.Bound? {
            bound.map { Query.Bound(value: Query.IndexValue(.string($0.key.text)), isInclusive: $0.isInclusive) }
        }
        // A range without bounds selects all children. The server treats such a query as the whole value.
        return QuerySpec(path: path, query: Query(index: .key, start: bound(start), end: bound(end)))
    }

    /// Whether a child of the path belongs to the range.
    func includes(_ key: Key) -> Bool {
        if let start {
            let order = start.key.order(against: key)
            if order > 0 || (order == 0 && !start.isInclusive) { return false }
        }
        if let end {
            let order = key.order(against: end.key)
            if order > 0 || (order == 0 && !end.isInclusive) { return false }
        }
        return true
    }

    /// The part's value in a tree: what the upstream sends for the part's listen.
    func view(of root: Node) -> Node {
        let node = root[path]
        guard isRange else { return node }
        return restricted(node)
    }

    /// The children of a node in the part's range, without the node's priority. Null for a leaf.
    func restricted(_ node: Node) -> Node {
        var view = node.restricted(toKeysFrom: start?.key, through: end?.key)
        for bound in [start, end] {
            if let bound, !bound.isInclusive { view = view.replacingChild(bound.key, with: .null) }
        }
        return view
    }

    /// The keys of a tree that belong to the range, in order.
    func keys(in root: Node) -> [Key] {
        guard case .branch(let branch) = root[path] else { return [] }
        return branch.children.lazy.filter { !isRange || includes($0.key) }.map(\.key)
    }

    var description: String {
        guard isRange else { return path.description }
        let low = start.map { "\($0.isInclusive ? "from" : "after") \($0.key)" }
        let high = end.map { "\($0.isInclusive ? "through" : "before") \($0.key)" }
        return "\(path), keys \([low, high].compactMap(\.self).joined(separator: " "))"
    }
}
