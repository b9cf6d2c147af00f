import Tree

/// The order of a view's children.
enum ViewOrder {
    /// By key: as the children are stored.
    case keys
    case index(OrderedIndex)

    /// - Parameters:
    ///   - node: what is ordered.
    ///   - isRanked: whether places in the order are asked for. Else nothing is built where the keys' order is the index's.
    init(_ node: Node, _ index: Query.Index, isRanked: Bool) {
        self = .keys
        guard case .branch(let branch) = node else { return }
        switch index {
        case .key where !isRanked: return
        case .priority where !isRanked:
            // Nearly no data has priorities any more.
            guard branch.children.contains(where: { !$0.node.priority.isNull }) else { return }
        default: break
        }
        self = .index(OrderedIndex(branch, by: index))
    }

    /// The order of a newer value, of which only these children differ.
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

    /// The key before a child of the view.
    ///
    /// - Parameters:
    ///   - shown: what the view shows.
    ///   - window: the places of what is shown in the order of all, where that is an index.
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

    /// The places in the order that the query selects.
    func window(of query: Query) -> Range<Int> {
        switch self {
        case .keys: 0..<0
        case .index(let index): index.ranks(of: query)
        }
    }
}

/// The orders of what is locally at one place: one for each index that its views ask for, however many views.
final class SharedOrders {
    private var orders: [(index: Query.Index, order: ViewOrder)] = []

    /// The order of the place's value.
    ///
    /// - Parameter isRanked: whether places in the order are asked for.
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

    /// Goes over to a newer value.
    ///
    /// - Parameter keys: the only children that differ; nil when any may.
    func follow(_ node: Node, _ keys: [Key]?) {
        guard let keys else {
            orders = []
            return
        }
        for place in orders.indices {
            let (index, order) = orders[place]
            orders[place].order = order.updated(to: node, changing: keys, index, isRanked: false)
        }
    }

    /// Nobody needs these orders any longer.
    func drop(where isUnused: (Query.Index) -> Bool) { orders.removeAll { isUnused($0.index) } }
}
