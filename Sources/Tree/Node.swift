/// A value of the tree: nothing, a leaf, or a branch with children. Immutable and structurally shared: a changed tree
/// shares everything but the way to the change with the one before.
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
/// - `isIdentical(to:)` compares references. A comparison of two versions stops at objects that both versions have, so
///   it costs what differs (`RowDiff`, `ChildMap.forEachDifference`).
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

extension Node {
    /// The tree with the node at `path` replaced (null: removed), as the protocol does it:
    /// - ancestors that become empty disappear, with their priorities;
    /// - a leaf on the way down becomes a branch and keeps its priority; writing null below a leaf changes nothing;
    /// - a path that ends in `.priority` sets the priority of what is there (nothing there: no change).
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

    /// The tree with one child replaced, or (null) taken out, as `replacing` does it.
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
    /// The tree after an entry's changes, one after another, as `replacing(_:with:)` does each.
    ///
    /// Many values that follow one another are put in together: what is above several of them is copied once, and not for each.
    ///
    /// - Parameter changes: in the order in which they are applied.
    public func replacing(_ changes: [Change]) -> Node {
        guard changes.count >= Self.leastTogether else { return replacing(changes[...]) }
        // Only values: what a removal leaves behind depends on what is there when its turn comes, and so does a priority.
        let values = changes.prefix { $0.step == .values }
        guard values.count >= Self.leastTogether, let together = replacing(together: values) else {
            return replacing(changes[...])
        }
        return together.replacing(changes[values.count...])
    }

    /// Fewer have next to nothing in common where they are anywhere in a large tree, and bringing them in order is not free: ten
    /// took as long either way, a hundred less.
    static let leastTogether = 16

    private func replacing(_ changes: ArraySlice<Change>) -> Node {
        changes.reduce(self) { $0.replacing($1.path, with: $1.value) }
    }

    /// Nil where one place lies at or below another, so that their order matters. An entry has no such places.
    private func replacing(together values: ArraySlice<Change>) -> Node? {
        let sorted = values.sorted { $0.path.comesBefore($1.path) }
        let areApart = zip(sorted, sorted.dropFirst()).allSatisfy { !$0.path.contains($1.path) }
        return areApart ? replacing(sorted[...], below: 0) : nil
    }

    /// - Parameters:
    ///   - changes: values, in the order of their paths.
    ///   - depth: how many keys lead here.
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
    /// Key by key, a path before those below it.
    fileprivate func comesBefore(_ other: Path) -> Bool {
        for (one, other) in zip(keys, other.keys) {
            let order = one.order(against: other)
            if order != 0 { return order < 0 }
        }
        return depth < other.depth
    }
}
