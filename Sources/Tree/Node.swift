/// A value of the tree: nothing, a leaf, or a branch with children. Immutable and structurally shared: a changed tree
/// shares everything but the way to the change with the one before.
public enum Node: Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case branch(Branch)
    /// A leaf that carries a priority.
    case prioritized(PrioritizedLeaf)
    /// A value that the server fills in when the write is applied. Never in a stored tree.
    case serverValue(ServerValue)

    @inlinable
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    @inlinable
    public var isBranch: Bool {
        if case .branch = self { true } else { false }
    }

    /// A leaf: neither null nor a branch.
    public var isLeaf: Bool {
        switch self {
        case .null, .branch: false
        default: true
        }
    }

    /// The node's priority, `.null` when it has none.
    public var priority: Node {
        switch self {
        case .branch(let branch): branch.priority
        case .prioritized(let leaf): leaf.priority
        default: .null
        }
    }

    /// A leaf's bare value, without its priority; a branch is itself.
    public var withoutPriority: Node {
        switch self {
        case .prioritized(let leaf): leaf.value
        case .branch(let branch) where !branch.priority.isNull:
            .branch(Branch(priority: .null, children: branch.children))
        default: self
        }
    }

    /// The same node with another priority (`.null` for none). Null stays null: nothing has no priority.
    public func withPriority(_ priority: Node) -> Node {
        switch self {
        case .null: .null
        case .branch(let branch): .branch(Branch(priority: priority, children: branch.children))
        case .prioritized(let leaf): leaf.value.withPriority(priority)
        default: priority.isNull ? self : .prioritized(PrioritizedLeaf(value: self, priority: priority))
        }
    }

    /// The direct child, `.null` when there is none.
    public func child(_ key: Key) -> Node {
        guard case .branch(let branch) = self else { return .null }
        return branch.children[key] ?? .null
    }

    /// How many children the node has.
    public var childCount: Int {
        guard case .branch(let branch) = self else { return 0 }
        return branch.children.count
    }

    /// How many rows of storage the node takes: one a leaf and one a priority. O(1).
    public var rowCount: Int {
        switch self {
        case .null: 0
        case .branch(let branch): branch.rowCount
        case .prioritized: 2
        default: 1
        }
    }

    /// The node at a path below this one; `.priority` as last key gives the priority.
    public subscript(path: Path) -> Node {
        var node = self
        for (index, key) in path.keys.enumerated() {
            if case .branch(let branch) = node, let child = branch.children[key] {
                node = child
            } else if index == path.depth - 1, key == .priority {
                return node.priority
            } else {
                return .null
            }
        }
        return node
    }

    /// An inner node of these children, in any order, later ones winning; null if none of them is anything.
    public init(children: some Sequence<(Key, Node)>, priority: Node = .null) {
        var entries = ContiguousArray<ChildMap.Entry>()
        for (key, node) in children { entries.append(.init(key: key, node: node)) }
        self = Node(sorting: &entries, priority: priority)
    }

    /// Builds a branch out of entries in any order. Of equal keys the last wins; null children vanish. The entries are
    /// sorted in place.
    public init(sorting entries: inout ContiguousArray<ChildMap.Entry>, priority: Node) {
        ChildMap.normalize(&entries)
        self = entries.isEmpty ? .null : .branch(Branch(priority: priority, children: ChildMap(sorted: entries)))
    }
}

/// A leaf and its priority.
public final class PrioritizedLeaf: Sendable {
    public let value: Node
    public let priority: Node

    init(value: Node, priority: Node) {
        self.value = value
        self.priority = priority
    }
}

/// An inner node: at least one child, and possibly a priority.
public final class Branch: Sendable {
    /// Few branches have a priority: those that have none hold no room for it.
    private let ownPriority: BranchPriority?
    public let children: ChildMap
    /// Rows of storage at and below this node.
    public let rowCount: Int

    /// `.null` where there is none.
    public var priority: Node { ownPriority?.value ?? .null }

    init(priority: Node, children: ChildMap) {
        ownPriority = priority.isNull ? nil : BranchPriority(priority)
        self.children = children
        rowCount = children.rowCount + (priority.isNull ? 0 : 1)
    }
}

/// A branch's priority.
final class BranchPriority: Sendable {
    let value: Node

    init(_ value: Node) { self.value = value }
}

/// A value that is known only when the write is applied (reference: rtdb-protocol 5).
public final class ServerValue: Sendable {
    public enum Kind: Sendable, Equatable {
        case timestamp
        /// By an integer or a double.
        case increment(Node)
    }
    public let kind: Kind

    public init(_ kind: Kind) { self.kind = kind }
}

extension Node: Equatable {
    /// Deep equality, priorities included. Shared parts compare in O(1).
    public static func == (left: Node, right: Node) -> Bool {
        switch (left, right) {
        case (.null, .null): return true
        case (.bool(let first), .bool(let second)): return first == second
        case (.int(let first), .int(let second)): return first == second
        // Bits, not values: 0.0 and -0.0 are different data.
        case (.double(let first), .double(let second)): return first.bitPattern == second.bitPattern
        case (.string(let first), .string(let second)): return first.hasSameBytes(as: second)
        case (.prioritized(let first), .prioritized(let second)):
            return first === second || (first.value == second.value && first.priority == second.priority)
        case (.serverValue(let first), .serverValue(let second)): return first.kind == second.kind
        case (.branch(let first), .branch(let second)):
            if first === second { return true }
            guard first.rowCount == second.rowCount, first.priority == second.priority else { return false }
            return first.children == second.children
        default: return false
        }
    }

    /// True when both are the very same object or the same small value: the cheap test that stops a walk over shared parts.
    @inlinable
    public func isIdentical(to other: Node) -> Bool {
        switch (self, other) {
        case (.branch(let first), .branch(let second)): first === second
        case (.prioritized(let first), .prioritized(let second)): first === second
        case (.branch, _), (_, .branch), (.prioritized, _), (_, .prioritized): false
        default: self == other
        }
    }
}

extension Node {
    /// Whether the node or anything below it has a priority. O(size).
    public var hasPriorities: Bool {
        switch self {
        case .prioritized: true
        case .branch(let branch): !branch.priority.isNull || branch.children.contains { $0.node.hasPriorities }
        default: false
        }
    }
}
