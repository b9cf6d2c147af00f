internal import Tree

/// A compiled rules document: nodes and rules in flat arrays, named by index. Immutable.
final class CompiledRules: Sendable {
    let program: Program
    /// The first is the root.
    let nodes: ContiguousArray<CompiledNode>
    /// The literal children of each node.
    let children: ContiguousArray<ChildTable>
    /// The `.indexOn` of each node that has one.
    let indexes: [Int: [Query.Index]]
    let rules: ContiguousArray<CompiledRule>
    /// What is known of each rule: for messages only.
    let sources: [RuleSource]
    /// True when everybody may read everything, and nothing more need be asked.
    let allowsEveryRead: Bool
    /// True when everybody may write anything.
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

    /// The node for a key below a node: the literal child, or else the wildcard. Nil ends the walk.
    @inline(__always)
    func child(of node: Int, _ key: Key) -> Int? {
        if let literal = children[node].index(of: key) { return literal }
        let wildcard = nodes[node].wildcard
        return wildcard >= 0 ? Int(wildcard) : nil
    }

    /// The rule node for a path, or nil where the walk ends before.
    func node(at path: Path) -> Int? {
        var node = 0
        for key in path.keys {
            guard let next = child(of: node, key) else { return nil }
            node = next
        }
        return node
    }
}

/// A trivial value, so that reading one counts no references; what is seldom wanted is kept beside it.
struct CompiledNode: Sendable {
    /// Indices of `CompiledRules.rules`, or -1.
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    /// An index of `CompiledRules.nodes`, or -1.
    var wildcard: Int32 = -1
    /// True when some node strictly below has a `.validate`: only then must written data be walked.
    var validatesBelow = false
    /// True when some node strictly below has a `.write` that may be true.
    var grantsBelow = false
}

/// The literal children of a rule node.
struct ChildTable: Sendable {
    struct Entry: Sendable {
        let key: Key
        let node: Int32
        /// Most unequal keys differ in this already.
        private let byteCount: Int

        init(key: Key, node: Int32) {
            self.key = key
            self.node = node
            byteCount = key.byteCount
        }

        @inline(__always)
        func matches(_ other: Key, _ otherByteCount: Int) -> Bool { byteCount == otherByteCount && key == other }
    }

    /// In key order.
    private(set) var entries: ContiguousArray<Entry> = []
    private var table: [Key: Int32] = [:]

    init() {}

    init(_ entries: [Entry]) {
        self.entries = ContiguousArray(entries.sorted { $0.key < $1.key })
        // Comparing is faster than hashing while there are few.
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

/// A trivial value, too.
struct CompiledRule: Sendable {
    let root: OpRef
    /// The value, if it is the same for everybody at any time.
    let constant: Bool?
    /// Whether neither data nor time can change the value, but only another caller, path or query.
    let isSteady: Bool
}

struct RuleSource: Sendable {
    let kind: RuleKind
    /// The expression without JSON escapes, and where it begins in the document, in bytes.
    let text: String
    let offset: Int
    /// The rule's operations in the program.
    let operations: Range<Int>
    /// Keys and `$names` from the root to the rule's node.
    let pattern: [String]
}
