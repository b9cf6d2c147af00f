public import Rules
public import Tree

/// The tree of a namespace as of one seq, and the rules that hold there. Immutable: reading it waits for nobody.
public struct Snapshot: Sendable {
    public let seq: Int64
    public let root: Node
    public let rules: RulesVersion

    public init(seq: Int64, root: Node, rules: RulesVersion) {
        self.seq = seq
        self.root = root
        self.rules = rules
    }
}

/// Security rules, compiled, and where they come from.
public final class RulesVersion: Sendable {
    /// The entry that brought them; 0 for those that a gateway has for namespaces without any of their own.
    public let seq: Int64
    public let set: RuleSet
    /// Whether REST queries need the indexes that the rules declare. Not where nobody has written rules.
    public let enforcesIndexes: Bool

    public init(seq: Int64, set: RuleSet, enforcesIndexes: Bool = true) {
        self.seq = seq
        self.set = set
        self.enforcesIndexes = enforcesIndexes
    }
}

/// One entry, with the tree before and after it.
public struct Step: Sendable {
    public let entry: Entry
    public let before: Node
    public let after: Node
}
