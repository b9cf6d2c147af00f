import ClientCore
import Foundation
import TestSupport
import Tree

@testable import PathmirrorClient

/// A query as an app builds it, with its own evaluation that does not use the library's.
struct PlainQuery: Sendable {
    enum Order: Sendable, Equatable {
        case unsaid, priority, key, value
        case child(String)
    }

    struct Bound: Sendable {
        let value: Node
        let key: String?
        let isInclusive: Bool
    }

    var order = Order.unsaid
    var start: Bound?
    var end: Bound?
    var limit: (count: Int, isLast: Bool)?

    init() {}

    init(_ random: inout SeededGenerator) {
        if random.oneIn(3) { return }
        order = random.pick([.unsaid, .priority, .key, .value, .value, .child("n"), .child("n"), .child("b/c")])
        if random.oneIn(8) {
            start = bound(&random, isInclusive: true)
            end = start
        } else {
            if random.oneIn(3) { start = bound(&random, isInclusive: random.oneIn(2)) }
            if random.oneIn(4) { end = bound(&random, isInclusive: random.oneIn(2)) }
        }
        if !random.oneIn(3) { limit = (1 + random.below(4), random.oneIn(2)) }
    }

    private func bound(_ random: inout SeededGenerator, isInclusive: Bool) -> Bound {
        let keys = ["1", "10", "b", "c", "x"]
        if order == .key { return Bound(value: .string(random.pick(keys)), key: nil, isInclusive: isInclusive) }
        let byPriority = order == .priority || order == .unsaid
        let values: [Node] = [.null, .int(1), .int(2), .double(1.5), .string("x"), byPriority ? .int(3) : .bool(true)]
        return Bound(
            value: random.pick(values), key: random.oneIn(3) ? random.pick(keys) : nil, isInclusive: isInclusive)
    }

    /// Whether the query only orders.
    var selectsAll: Bool { start == nil && end == nil && limit == nil }

    /// Returns the query built through the public API.
    func query(at ref: DatabaseReference) -> DatabaseQuery {
        var query: DatabaseQuery = ref
        switch order {
        case .unsaid: break
        case .priority: query = query.queryOrderedByPriority()
        case .key: query = query.queryOrderedByKey()
        case .value: query = query.queryOrderedByValue()
        case .child(let path): query = query.queryOrdered(byChild: path)
        }
        if let start {
            let value = start.value.foundationValue()
            query =
                start.isInclusive
                ? query.queryStarting(atValue: value, childKey: start.key)
                : query.queryStarting(afterValue: value, childKey: start.key)
        }
        if let end {
            let value = end.value.foundationValue()
            query =
                end.isInclusive
                ? query.queryEnding(atValue: value, childKey: end.key)
                : query.queryEnding(beforeValue: value, childKey: end.key)
        }
        if let limit {
            let count = UInt(limit.count)
            query = limit.isLast ? query.queryLimited(toLast: count) : query.queryLimited(toFirst: count)
        }
        return query
    }

    // MARK: Evaluation

    /// Returns the children that the query selects, in its order.
    func select(from node: Node) -> [(key: Key, node: Node)] {
        let admitted = ordered(node).filter { child in
            isWithin(child, start, isStart: true) && isWithin(child, end, isStart: false)
        }
        guard let limit else { return admitted }
        return Array(limit.isLast ? admitted.suffix(limit.count) : admitted.prefix(limit.count))
    }

    /// Returns the value that a listener to the query is shown of the value at its path.
    func shown(of node: Node) -> Node {
        selectsAll ? node : Node(children: select(from: node).map { ($0.key, $0.node) })
    }

    /// Returns all children in the query's order.
    func ordered(_ node: Node) -> [(key: Key, node: Node)] {
        guard case .branch(let branch) = node else { return [] }
        return branch.children.map { (key: $0.key, node: $0.node) }.sorted { left, right in
            let order = order == .key ? 0 : PlainOrder.compare(sortValue(left.node), sortValue(right.node))
            return order == 0 ? PlainOrder.compare(left.key.text, right.key.text) < 0 : order < 0
        }
    }

    private func sortValue(_ child: Node) -> Node {
        switch order {
        case .key: .null
        case .value: child
        case .priority, .unsaid: child.priority
        case .child(let path): child[Path(splitting: path)]
        }
    }

    private func isWithin(_ child: (key: Key, node: Node), _ bound: Bound?, isStart: Bool) -> Bool {
        guard let bound else { return true }
        var order: Int
        if self.order == .key, case .string(let text) = bound.value {
            order = PlainOrder.compare(child.key.text, text)
        } else {
            order = PlainOrder.compare(sortValue(child.node), bound.value)
            if order == 0, let key = bound.key { order = PlainOrder.compare(child.key.text, key) }
        }
        if order == 0 { return bound.isInclusive }
        return isStart == (order > 0)
    }
}

extension PlainQuery: CustomStringConvertible {
    var description: String {
        func text(_ bound: Bound) -> String {
            "\(bound.isInclusive ? "=" : "")\(PlainText.json(bound.value))\(bound.key.map { "/\($0)" } ?? "")"
        }
        var parts = ["by \(order)"]
        if let start { parts.append("from \(text(start))") }
        if let end { parts.append("to \(text(end))") }
        if let limit { parts.append("\(limit.isLast ? "last" : "first") \(limit.count)") }
        return parts.joined(separator: " ")
    }
}

/// The order of values and of keys as the protocol's documentation describes it.
enum PlainOrder {
    static func compare(_ left: Node, _ right: Node) -> Int {
        let (left, right) = (left.withoutPriority, right.withoutPriority)
        let ranks = (rank(left), rank(right))
        if ranks.0 != ranks.1 { return ranks.0 - ranks.1 }
        if case .string(let one) = left, case .string(let other) = right {
            return one == other ? 0 : Array(one.utf8).lexicographicallyPrecedes(Array(other.utf8)) ? -1 : 1
        }
        guard let one = number(left), let other = number(right) else { return 0 }
        return one == other ? 0 : one < other ? -1 : 1
    }

    /// Compares keys. Integers come first, by value.
    static func compare(_ left: String, _ right: String) -> Int {
        switch (integer(left), integer(right)) {
        case (let one?, let other?): one == other ? left.utf8.count - right.utf8.count : one < other ? -1 : 1
        case (_?, nil): -1
        case (nil, _?): 1
        case (nil, nil):
            left == right ? 0 : Array(left.utf16).lexicographicallyPrecedes(Array(right.utf16)) ? -1 : 1
        }
    }

    private static func integer(_ text: String) -> Int32? {
        text.allSatisfy { $0.isASCII && ($0.isNumber || $0 == "-") } ? Int32(text) : nil
    }

    private static func rank(_ node: Node) -> Int {
        switch node {
        case .null: 0
        case .bool(let value): value ? 2 : 1
        case .int, .double: 3
        case .string: 4
        default: 5
        }
    }

    private static func number(_ node: Node) -> Double? {
        switch node {
        case .int(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }
}

/// Formats values for the model's messages.
enum PlainText {
    static func json(_ node: Node) -> String { String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self) }
}
