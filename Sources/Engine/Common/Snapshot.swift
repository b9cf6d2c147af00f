import LogStore
public import Rules
public import Tree

/// The tree of a namespace as of one seq, and the rules that hold there. Immutable: reading it waits for nobody.
public struct Snapshot: Sendable {
    public let seq: Int64
    public let root: Node
    public let rules: RulesVersion
    /// The batch of the entry at `seq`, by which its history can be told from others; nil where it isn't known.
    public let batch: [UInt8]?

    public init(seq: Int64, root: Node, rules: RulesVersion, batch: [UInt8]? = nil) {
        self.seq = seq
        self.root = root
        self.rules = rules
        self.batch = batch
    }

    /// Where in the log this is.
    var cursor: LogCursor { LogCursor(seq: seq, batch: batch) }

    /// False where this is of another batch than `other`; true where one of them isn't known.
    func isOf(_ other: [UInt8]?) -> Bool { Self.isSame(batch, other) }

    /// False where these are two batches; true where one of them isn't known.
    static func isSame(_ batch: [UInt8]?, _ other: [UInt8]?) -> Bool {
        guard let batch, let other else { return true }
        return batch == other
    }
}

/// Security rules, compiled, and where they come from.
public final class RulesVersion: Sendable {
    /// The entry that brought them; 0 for those that a gateway has for namespaces without any of their own.
    public let seq: Int64
    public let set: RuleSet
    /// Whether REST queries need the indexes that the rules declare. Not where nobody has written rules.
    public let enforcesIndexes: Bool
    /// About what they take of memory that nobody else has: 0 for those of the gateway, and for those that namespaces share.
    let heapBytes: Int
    /// Compiled rules take about so many times their source.
    private static let bytesOfSourceByte = 12

    public convenience init(seq: Int64, set: RuleSet, enforcesIndexes: Bool = true) {
        self.init(seq: seq, set: set, enforcesIndexes: enforcesIndexes, isShared: seq == 0)
    }

    init(seq: Int64, set: RuleSet, enforcesIndexes: Bool = true, isShared: Bool) {
        self.seq = seq
        self.set = set
        self.enforcesIndexes = enforcesIndexes
        heapBytes = isShared ? 0 : set.source.count * Self.bytesOfSourceByte
    }
}

/// One entry, with the tree before and after it.
public struct Step: Sendable {
    public let entry: Entry
    public let before: Node
    public let after: Node
    /// The batch that the entry is of; nil where it isn't known.
    public let batch: [UInt8]?
    /// When the entry was committed, as the log says; nil where only the log knows. In milliseconds since 1970. (`entry` has the time by
    /// which the write was evaluated.)
    public var committedAt: Int64?

    public init(
        entry: Entry, before: Node, after: Node, batch: [UInt8]? = nil, committedAt: Int64? = nil
    ) {
        self.entry = entry
        self.before = before
        self.after = after
        self.batch = batch
        self.committedAt = committedAt
    }
}
