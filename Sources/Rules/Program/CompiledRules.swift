internal import Tree

/// A compiled rules document: nodes and rules in flat arrays, identified by their index. Immutable.
final class CompiledRules: Sendable {
    let program: Program
    /// The first node is the root.
    let nodes: ContiguousArray<CompiledNode>
    /// The literal children of each node.
    let children: ContiguousArray<ChildTable>
    /// The `.indexOn` of each node that has one.
    let indexes: [Int: [Query.Index]]
    let rules: ContiguousArray<CompiledRule>
    /// Information about each rule, for messages only.
    let sources: [RuleSource]
    /// Whether every caller may read everything, so that no rule must be evaluated.
    let allowsEveryRead: Bool
    /// Whether every caller may write everything.
    let allowsEveryWrite: Bool

    init(
        program: Program, nodes: ContiguousArray<CompiledNode>, children: ContiguousArray<ChildTable>,
        indexes: [Int: [Query.Index]], rules: ContiguousArray<CompiledRule>, sources: [RuleSource]
    ) {
        self.program = program
        self.nodes = nodes
        self.children = children
        self.indexes = indexes
        self.rules = rules
        self.sources = sources
        let root = nodes[0]
        allowsEveryRead = root.read >= 0 && rules[Int(root.read)].constant == true
        allowsEveryWrite =
            root.write >= 0 && rules[Int(root.write)].constant == true && root.validate < 0 && !root.validatesBelow
    }

    /// Returns the node for a key below a node: the literal child, or else the wildcard. Nil ends the walk.
    @inline(__always)
    func child(of node: Int, _ key: Key) -> Int? {
        if let literal = children[node].index(of: key) { return literal }
        let wildcard = nodes[node].wildcard
        return wildcard >= 0 ? Int(wildcard) : nil
    }

    /// Returns the rule node for a path, or nil if the walk ends before.
    func node(at path: Path) -> Int? {
        var node = 0
        for key in path.keys {
            guard let next = child(of: node, key) else { return nil }
            node = next
        }
        return node
    }
}

/// A trivial type, so that reading one counts no references. Data that is seldom needed is kept separately.
struct CompiledNode: Sendable {
    /// Indices of `CompiledRules.rules`, or -1.
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    /// An index of `CompiledRules.nodes`, or -1.
    var wildcard: Int32 = -1
    /// Whether a node strictly below has a `.validate`. Only then must written data be walked.
    var validatesBelow = false
    /// Whether a node strictly below has a `.write` that may be true.
    var grantsBelow = false
}

/// The literal children of a rule node.
struct ChildTable: Sendable {
    struct Entry: Sendable {
        let key: Key
        let node: Int32
        /// Compared first, because most unequal keys differ in length.
        private let byteCount: Int

        init(key: Key, node: Int32) {
            self.key = key
            self.node = node
            byteCount = key.byteCount
        }

        @inline(__always)
        func matches(_ other: Key, _ otherByteCount: Int) -> Bool { byteCount == otherByteCount && key == other }
    }

    /// The entries in key order.
    private(set) var entries: ContiguousArray<Entry> = []
    private var table: [Key: Int32] = [:]

    init() {}

    init(_ entries: [Entry]) {
        self.entries = ContiguousArray(entries.sorted { $0.key < $1.key })
        // With few entries, comparing is faster than hashing.
        if entries.count > 8 { for entry in entries { table[entry.key] = entry.node } }
    }

    @inline(__always)
    func index(of key: Key) -> Int? {
        if !table.isEmpty { return table[key].map(Int.init) }
        let byteCount = key.byteCount
        for index in entries.indices where entries[index].matches(key, byteCount) { return Int(entries[index].node) }
        return nil
    }
}

/// A compiled rule. This is a trivial type, too.
struct CompiledRule: Sendable {
    let root: OpRef
    /// The value, if it is always the same for every caller.
    let constant: Bool?
    /// Whether only another caller, path or query can change the value, but neither data nor time.
    let isSteady: Bool
}

struct RuleSource: Sendable {
    let kind: RuleKind
    /// The expression without JSON escapes, and its offset in the document, in bytes.
    let text: String
    let offset: Int
    /// The rule's operations in the program.
    let operations: Range<Int>
    /// Keys and `$names` from the root to the rule's node.
    let pattern: [String]
}
