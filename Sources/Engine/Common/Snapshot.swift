import LogStore
public import Rules
public import Tree

/// The tree of a namespace at one seq, and the rules that apply there. Immutable: readers never wait.
public struct Snapshot: Sendable {
    public let seq: Int64
    public let root: Node
    public let rules: RulesVersion
    /// The batch of the entry at `seq`, which distinguishes its history from others; nil if unknown.
    public let batch: [UInt8]?

    public init(seq: Int64, root: Node, rules: RulesVersion, batch: [UInt8]? = nil) {
        self.seq = seq
        self.root = root
        self.rules = rules
        self.batch = batch
    }

    /// The log position of the snapshot.
    var position: LogPosition { LogPosition(seq: seq, batch: batch) }

    /// Returns false if the snapshot is of a batch other than `other`, and true if one of the two is unknown.
    func isOf(_ other: [UInt8]?) -> Bool { Self.isSame(batch, other) }

    /// Returns false if the two batches differ, and true if one of them is unknown.
    static func isSame(_ batch: [UInt8]?, _ other: [UInt8]?) -> Bool {
        guard let batch, let other else { return true }
        return batch == other
    }
}

/// Compiled security rules and their origin.
public final class RulesVersion: Sendable {
    /// The seq of the entry that set the rules; 0 for the gateway's default rules.
    public let seq: Int64
    public let set: RuleSet
    /// Whether queries without a declared index fail (listeners get a warning instead); false for built-in rules.
    public let enforcesIndexes: Bool
    /// Approximate bytes of memory that belong to this version alone: 0 for the gateway's rules and for rules that
    /// namespaces share.
    let heapBytes: Int
    /// Compiled rules take about this many times the bytes of their source.
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
    /// The batch of the entry; nil if unknown.
    public let batch: [UInt8]?
    /// The commit time that the log has for the entry, in milliseconds since 1970; nil if only the log has it. (`entry`
    /// has the time at which the write was evaluated.)
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
