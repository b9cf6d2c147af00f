import Tree

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
