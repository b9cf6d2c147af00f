/// Which children of a node a reader asks for, and by which order (reference: rtdb-protocol 3.1, 7.2).
public struct Query: Sendable, Hashable {
    public enum Index: Sendable, Hashable {
        case key
        case value
        case priority
        /// The leaf at this path below each child.
        case child(Path)
    }

    public struct Bound: Sendable, Hashable {
        /// The index value; for the key index a string.
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

    /// A leaf that bounds may name.
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

    /// True when the query only orders: every child is in it.
    public var selectsAll: Bool { start == nil && end == nil && limit == nil }

    /// The value by which a child is sorted (not for the key index).
    public func indexValue(of child: Node) -> Node {
        switch index {
        case .key: .null
        case .value: child
        case .priority: child.priority
        case .child(let path): child[path]
        }
    }
}
