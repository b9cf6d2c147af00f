import Tree

/// The order of a view's children.
enum ViewOrder {
    /// By key, which is the order in which children are stored.
    case keys
    case index(OrderedIndex)

    /// - Parameters:
    ///   - node: the value whose children are ordered.
    ///   - isRanked: whether ranks in the order are needed. Otherwise no index is built if its order is that of the
    ///     keys.
    init(_ node: Node, _ index: Query.Index, isRanked: Bool) {
        self = .keys
        guard case .branch(let branch) = node else { return }
        switch index {
        case .key where !isRanked: return
        case .priority where !isRanked:
            // Current data rarely has priorities.
            guard branch.children.contains(where: { !$0.node.priority.isNull }) else { return }
        default: break
        }
        self = .index(OrderedIndex(branch, by: index))
    }

    /// Returns the order of a newer value in which only these children differ.
    func updated(to node: Node, changing keys: [Key], _ by: Query.Index, isRanked: Bool) -> ViewOrder {
        switch self {
        case .index(let index):
            guard case .branch(let branch) = node else { return .keys }
            return .index(index.updated(to: branch, changing: keys))
        case .keys:
            if isRanked { return ViewOrder(node, by, isRanked: true) }
            switch by {
            case .key: return .keys
            case .priority where keys.allSatisfy({ node.child($0).priority.isNull }): return .keys
            default: return ViewOrder(node, by, isRanked: false)
            }
        }
    }

    /// Returns the key before a child of the view.
    ///
    /// - Parameters:
    ///   - shown: the value that the view shows.
    ///   - window: the ranks of the shown children in the whole order, if that is an index.
    func previous(of key: Key, _ child: Node, in shown: Node, window: Range<Int>) -> Key? {
        switch self {
        case .keys:
            guard case .branch(let branch) = shown else { return nil }
            var previous: Key?
            branch.children.forEachReversed(from: key) { entry in
                if entry.key == key { return true }
                previous = entry.key
                return false
            }
            return previous
        case .index(let index):
            let rank = index.rank(of: key, child)
            return rank > window.lowerBound ? index.key(at: rank - 1) : nil
        }
    }

    /// Returns the ranks in the order that the query selects.
    func window(of query: Query) -> Range<Int> {
        switch self {
        case .keys: 0..<0
        case .index(let index): index.ranks(of: query)
        }
    }
}

/// The orders of the local value of one path: one for each index that its views use, for any number of views.
final class SharedOrders {
    private var orders: [(index: Query.Index, order: ViewOrder)] = []

    /// Returns the order of the path's value.
    ///
    /// - Parameter isRanked: whether ranks in the order are needed.
    func order(of query: Query, in node: Node, isRanked: Bool) -> ViewOrder {
        let known = orders.firstIndex { $0.index == query.index }
        if let known {
            if case .index = orders[known].order { return orders[known].order }
            if !isRanked || !node.isBranch { return orders[known].order }
        }
        let made = ViewOrder(node, query.index, isRanked: isRanked)
        if let known { orders[known].order = made } else { orders.append((query.index, made)) }
        return made
    }

    /// Updates the orders to a newer value.
    ///
    /// - Parameter keys: the only children that differ; nil if any may.
    func follow(_ node: Node, _ keys: [Key]?) {
        guard let keys else {
            orders = []
            return
        }
        for offset in orders.indices {
            let (index, order) = orders[offset]
            orders[offset].order = order.updated(to: node, changing: keys, index, isRanked: false)
        }
    }

    /// Removes orders that are no longer needed.
    func drop(where isUnused: (Query.Index) -> Bool) { orders.removeAll { isUnused($0.index) } }
}
