/// A value of the tree: null, a leaf, or a branch with children. Immutable and structurally shared: a changed tree shares all
/// objects with the previous one, except those on the path to the change.
///
/// A leaf is in the enum itself. A branch, a leaf with a priority and a server value are references to objects whose
/// fields never change, so any number of threads can read any version of a tree. `replacing(_:with:)` copies the
/// branches on the path to the change and refers to all other objects of the old version:
///
///     version 1                               version 2, after /users/ann/age was set to 31
///
///     root Branch                             root Branch (copy)
///     |- rooms --> Branch <------------------ |- rooms                  the same object
///     `- users --> Branch                     `- users --> Branch (copy)
///                  |- ann --> Branch                       |- ann --> Branch (copy)
///                  |          `- age: 30                   |          `- age: 31
///                  `- bob --> Branch <-------------------- `- bob       the same object
///
/// - `isIdentical(to:)` compares references. A comparison of two versions stops at objects that both versions have, so its cost
///   depends only on the differences (`RowDiff`, `ChildMap.forEachDifference`).
/// - A branch has at least one child. A change that removes the last child removes the branch, and each branch above
///   that becomes empty.
/// - `ChildMap` holds the children of a branch in a B+tree, so the copy of a large branch is small, too.
/// - `Branch.rowCount` is the number of database rows at and below the branch: one for each leaf and one for each
///   priority.
public enum Node: Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case branch(Branch)
    /// A leaf with a priority.
    case prioritized(PrioritizedLeaf)
    /// A value that the server determines when it applies the write. Never in a stored tree.
    case serverValue(ServerValue)

    @inlinable
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    @inlinable
    public var isBranch: Bool {
        if case .branch = self { true } else { false }
    }

    /// Whether the node is a leaf: neither null nor a branch.
    public var isLeaf: Bool {
        switch self {
        case .null, .branch: false
        default: true
        }
    }

    /// The node's priority, or `.null` if it has none.
    public var priority: Node {
        switch self {
        case .branch(let branch): branch.priority
        case .prioritized(let leaf): leaf.priority
        default: .null
        }
    }

    /// The node without its own priority. The children of a branch keep theirs.
    public var withoutPriority: Node {
        switch self {
        case .prioritized(let leaf): leaf.value
        case .branch(let branch) where !branch.priority.isNull:
            .branch(Branch(priority: .null, children: branch.children))
        default: self
        }
    }

    /// Returns the node with another priority (`.null` for none). Null can't have a priority and stays null.
    public func withPriority(_ priority: Node) -> Node {
        switch self {
        case .null: .null
        case .branch(let branch): .branch(Branch(priority: priority, children: branch.children))
        case .prioritized(let leaf): leaf.value.withPriority(priority)
        default: priority.isNull ? self : .prioritized(PrioritizedLeaf(value: self, priority: priority))
        }
    }

    /// Returns the direct child, or `.null` if there is none.
    public func child(_ key: Key) -> Node {
        guard case .branch(let branch) = self else { return .null }
        return branch.children[key] ?? .null
    }

    /// The number of children.
    public var childCount: Int {
        guard case .branch(let branch) = self else { return 0 }
        return branch.children.count
    }

    /// The number of storage rows of the node: one for each leaf and one for each priority. O(1).
    public var rowCount: Int {
        switch self {
        case .null: 0
        case .branch(let branch): branch.rowCount
        case .prioritized: 2
        default: 1
        }
    }

    /// Returns the node at a path below this one. If the last key is `.priority`, returns the priority.
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

    /// Creates a branch of these children, in any order. The last of equal keys wins. Null if there is no child that is not
    /// null.
    public init(children: some Sequence<(Key, Node)>, priority: Node = .null) {
        var entries = ContiguousArray<ChildMap.Entry>()
        for (key, node) in children { entries.append(.init(key: key, node: node)) }
        self = Node(sorting: &entries, priority: priority)
    }

    /// Creates a branch of entries in any order. The last of equal keys wins; null children are dropped. The entries are sorted
    /// in place.
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
    /// An object of its own, so that branches without a priority, which are most of them, need less memory.
    private let ownPriority: BranchPriority?
    public let children: ChildMap
    /// The number of storage rows at and below this node.
    public let rowCount: Int

    /// `.null` if there is none.
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
        /// Adds an integer or a double to the stored number.
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

    /// Whether both are the same object or the same small value. With this cheap test, a walk can stop at shared parts.
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

extension Node {
    /// Returns the tree with the node at `path` replaced (null: removed), by the protocol's rules:
    /// - ancestors that become empty are removed, with their priorities;
    /// - a leaf on the path becomes a branch and keeps its priority; writing null below a leaf has no effect;
    /// - a path that ends in `.priority` sets the priority of the node there, if there is a node.
    public func replacing(_ path: Path, with value: Node) -> Node {
        replacing(path.keys[...], with: value)
    }

    private func replacing(_ keys: ArraySlice<Key>, with value: Node) -> Node {
        guard let key = keys.first else { return value }
        if keys.count == 1, key == .priority { return withPriority(value) }
        let rest = keys.dropFirst()
        switch self {
        case .branch(let branch):
            let old = branch.children[key] ?? .null
            let new = old.replacing(rest, with: value)
            if new.isIdentical(to: old) { return self }
            let children = branch.children.replacing(key, with: new)
            return children.count == 0 ? .null : .branch(Branch(priority: branch.priority, children: children))
        case .null:
            let new = Node.null.replacing(rest, with: value)
            return new.isNull ? .null : .single(key, new, priority: .null)
        default:
            let new = Node.null.replacing(rest, with: value)
            return new.isNull ? self : .single(key, new, priority: priority)
        }
    }

    /// Returns the tree with one child replaced or, for null, removed, by the rules of `replacing`.
    public func replacingChild(_ key: Key, with value: Node) -> Node {
        switch self {
        case .branch(let branch):
            if value.isIdentical(to: branch.children[key] ?? .null) { return self }
            let children = branch.children.replacing(key, with: value)
            return children.count == 0 ? .null : .branch(Branch(priority: branch.priority, children: children))
        case .null: return value.isNull ? .null : .single(key, value, priority: .null)
        default: return value.isNull ? self : .single(key, value, priority: priority)
        }
    }

    private static func single(_ key: Key, _ node: Node, priority: Node) -> Node {
        .branch(Branch(priority: priority, children: ChildMap(sorted: [.init(key: key, node: node)])))
    }
}

extension Node {
    /// Returns the tree after an entry's changes, one after another, each as by `replacing(_:with:)`.
    ///
    /// Many consecutive values are applied together: an ancestor of several of them is copied once, and not for each.
    ///
    /// - Parameter changes: in the order in which they are applied.
    public func replacing(_ changes: [Change]) -> Node {
        guard changes.count >= Self.leastTogether else { return replacing(changes[...]) }
        // Only values: the result of a removal or of a priority depends on the tree at the time when it is applied.
        let values = changes.prefix { $0.step == .values }
        guard values.count >= Self.leastTogether, let together = replacing(together: values) else {
            return replacing(changes[...])
        }
        return together.replacing(changes[values.count...])
    }

    /// Fewer changes at random paths of a large tree have few ancestors in common, and sorting them has a cost: ten took
    /// equally long either way, a hundred took less time together.
    static let leastTogether = 16

    private func replacing(_ changes: ArraySlice<Change>) -> Node {
        changes.reduce(self) { $0.replacing($1.path, with: $1.value) }
    }

    /// Returns nil if one path is at or below another, so that their order matters. An entry has no such paths.
    private func replacing(together values: ArraySlice<Change>) -> Node? {
        let sorted = values.sorted { $0.path.comesBefore($1.path) }
        let areApart = zip(sorted, sorted.dropFirst()).allSatisfy { !$0.path.contains($1.path) }
        return areApart ? replacing(sorted[...], below: 0) : nil
    }

    /// - Parameters:
    ///   - changes: values, ordered by their paths.
    ///   - depth: the number of keys in this node's path.
    private func replacing(_ changes: ArraySlice<Change>, below depth: Int) -> Node {
        guard changes.count > 1 else {
            return changes.reduce(self) { $0.replacing($1.path.dropFirst(depth), with: $1.value) }
        }
        let children = if case .branch(let branch) = self { branch.children } else { ChildMap(sorted: []) }
        var entries: [ChildMap.Entry] = []
        var left = changes
        while let key = left.first?.path[depth] {
            let end = left.firstIndex { $0.path[depth] != key } ?? left.endIndex
            let old = children[key] ?? .null
            let new = old.replacing(left[..<end], below: depth + 1)
            if !new.isIdentical(to: old) { entries.append(.init(key: key, node: new)) }
            left = left[end...]
        }
        if entries.isEmpty { return self }
        return .branch(Branch(priority: priority, children: children.replacing(entries[...])))
    }
}

extension Path {
    /// Whether this path comes before another one, key by key. A path comes before those below it.
    fileprivate func comesBefore(_ other: Path) -> Bool {
        for (one, other) in zip(keys, other.keys) {
            let order = one.order(against: other)
            if order != 0 { return order < 0 }
        }
        return depth < other.depth
    }
}
