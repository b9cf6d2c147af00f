import Tree

/// A range of a query's order, including its edges. It may be wider than the range that the query admits, and is never
/// narrower.
struct OrderRange {
    /// A position in the order; without a key it covers all children with the value.
    struct Edge {
        let value: Node
        let key: Key?
    }

    /// The low edge; nil if the range is unbounded below.
    var low: Edge?
    /// The high edge; nil if the range is unbounded above.
    var high: Edge?

    /// Creates the range of one child.
    init(_ value: Node, _ key: Key) {
        low = Edge(value: value, key: key)
        high = low
    }

    /// Creates the range that a query's bounds admit.
    init(boundsOf query: Query) {
        low = query.start.flatMap { Self.edge($0, query.index) }
        high = query.end.flatMap { Self.edge($0, query.index) }
    }

    private static func edge(_ bound: Query.Bound, _ index: Query.Index) -> Edge? {
        if index == .key {
            guard case .string(let text) = bound.value.node, let key = plain(Key(text)) else { return nil }
            return Edge(value: .null, key: key)
        }
        return Edge(value: bound.value.node, key: bound.key.flatMap(plain))
    }

    /// The names of the least and the greatest key are not actual keys.
    private static func plain(_ key: Key) -> Key? { key.text.utf8.first == UInt8(ascii: "[") ? nil : key }

    func overlaps(_ other: OrderRange) -> Bool {
        Self.isInOrder(low, other.high) && Self.isInOrder(other.low, high)
    }

    /// Whether a low edge is not after a high one.
    static func isInOrder(_ low: Edge?, _ high: Edge?) -> Bool {
        guard let low, let high else { return true }
        let order = ValueOrder.compare(low.value, high.value)
        if order != 0 { return order < 0 }
        guard let first = low.key, let second = high.key else { return true }
        return first.order(against: second) <= 0
    }

    /// Compares two low edges: negative, zero or positive.
    static func compareLows(_ first: Edge?, _ second: Edge?) -> Int {
        guard let first, let second else { return (first == nil ? 0 : 1) - (second == nil ? 0 : 1) }
        let order = ValueOrder.compare(first.value, second.value)
        if order != 0 { return order }
        guard let one = first.key, let other = second.key else {
            return (first.key == nil ? 0 : 1) - (second.key == nil ? 0 : 1)
        }
        return one.order(against: other)
    }

    /// Compares two high edges: negative, zero or positive.
    static func compareHighs(_ first: Edge?, _ second: Edge?) -> Int {
        guard let first, let second else { return (second == nil ? 0 : 1) - (first == nil ? 0 : 1) }
        let order = ValueOrder.compare(first.value, second.value)
        if order != 0 { return order }
        guard let one = first.key, let other = second.key else {
            return (second.key == nil ? 0 : 1) - (first.key == nil ? 0 : 1)
        }
        return one.order(against: other)
    }

    func isSame(as other: OrderRange) -> Bool {
        Self.compareLows(low, other.low) == 0 && Self.compareHighs(high, other.high) == 0
    }
}
