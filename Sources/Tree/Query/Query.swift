/// A reader's choice of a node's children, and their order (reference: rtdb-protocol 3.1, 7.2).
public struct Query: Sendable, Hashable {
    public enum Index: Sendable, Hashable {
        case key
        case value
        case priority
        /// The leaf at this path below each child.
        case child(Path)
    }

    public struct Bound: Sendable, Hashable {
        /// The index value. For the key index, a string.
        public let value: IndexValue
        /// Breaks ties between equal index values.
        public let key: Key?
        public let isInclusive: Bool

        public init(value: IndexValue, key: Key? = nil, isInclusive: Bool = true) {
            self.value = value
            self.key = key
            self.isInclusive = isInclusive
        }
    }

    /// A leaf as the value of a bound.
    public struct IndexValue: Sendable, Hashable {
        public let node: Node

        public init(_ node: Node) { self.node = node }

        public static func == (left: IndexValue, right: IndexValue) -> Bool { left.node == right.node }

        public func hash(into hasher: inout Hasher) {
            hasher.combine(JSONWriter.encode(node, form: .export))
        }
    }

    public enum Limit: Sendable, Hashable {
        case first(Int)
        case last(Int)
    }

    public var index: Index
    public var start: Bound?
    public var end: Bound?
    public var limit: Limit?

    public init(index: Index = .priority, start: Bound? = nil, end: Bound? = nil, limit: Limit? = nil) {
        self.index = index
        self.start = start
        self.end = end
        self.limit = limit
    }

    /// Whether the query only orders the children and selects all of them.
    public var selectsAll: Bool { start == nil && end == nil && limit == nil }

    /// Returns the value by which a child is sorted; null for the key index.
    public func indexValue(of child: Node) -> Node {
        switch index {
        case .key: .null
        case .value: child
        case .priority: child.priority
        case .child(let path): child[path]
        }
    }
}

/// The order of values: null, false, true, numbers, strings by UTF-16, objects (all equal). Priorities have the same order
/// (reference: rtdb-protocol 6.3).
public enum ValueOrder {
    /// Returns a negative number, zero or a positive number if the first value sorts before, with or after the second. The
    /// priorities of leaves are ignored.
    public static func compare(_ left: Node, _ right: Node) -> Int {
        switch (left, right) {
        case (.int(let first), .int(let second)): first < second ? -1 : (first > second ? 1 : 0)
        case (.double(let first), .double(let second)): first < second ? -1 : (first > second ? 1 : 0)
        case (.int(let first), .double(let second)): compare(first, second)
        case (.double(let first), .int(let second)): -compare(second, first)
        case (.string(let first), .string(let second)): first.codeUnitOrder(against: second)
        case (.prioritized(let first), _): compare(first.value, right)
        case (_, .prioritized(let second)): compare(left, second.value)
        default: rank(left) - rank(right)
        }
    }

    private static func rank(_ node: Node) -> Int {
        switch node {
        case .null: 0
        case .bool(false): 1
        case .bool(true): 2
        case .int, .double: 3
        case .string: 4
        case .branch, .prioritized, .serverValue: 5
        }
    }

    /// Compares exactly: an integer beyond 2^53 is not rounded to a double.
    private static func compare(_ integer: Int64, _ double: Double) -> Int {
        if double >= 9_223_372_036_854_775_808 { return -1 }
        if double < -9_223_372_036_854_775_808 { return 1 }
        // Truncated without the C library's rounding functions, which would have to be linked.
        let whole = Int64(double)
        if integer != whole { return integer < whole ? -1 : 1 }
        let rest = double - Double(whole)
        return rest > 0 ? -1 : (rest < 0 ? 1 : 0)
    }
}
