public import LogStore
public import Tree

/// A namespace's tree as of an entry.
public struct TreeVersion: Sendable {
    public let seq: Int64
    public let root: Node

    public init(seq: Int64, root: Node) {
        self.seq = seq
        self.root = root
    }
}

/// A step of a namespace's tree: a committed entry, and the trees before and behind it where they are still known.
public struct TreeStep: Sendable {
    public let entry: Entry
    /// The batch that the entry came in.
    public let batch: [UInt8]
    public let before: Node?
    public let after: Node?

    public init(entry: Entry, batch: [UInt8], before: Node?, after: Node?) {
        self.entry = entry
        self.batch = batch
        self.before = before
        self.after = after
    }
}

/// Knows trees of namespaces, mostly recent ones, so that they need not be made from the log once more. Any thread may ask; nothing waits.
public protocol TreeSource: Sendable {
    /// Begins to keep the trees of a namespace, and has it read where it is not there. Has `body` called when that has ended, and whenever
    /// the namespace has new entries, soon after they are committed, until `forget`; on a thread that must not be held up.
    ///
    /// - Parameter name: what it is called; another namespace of that name is not meant.
    func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void)

    /// Whether a namespace that is watched is being read. Before that has ended nothing is known of it.
    func isComing(_ namespace: Int64) -> Bool

    /// The tree as of that entry, or of one that is not long before; nil where there is none.
    func tree(of namespace: Int64, at seq: Int64) -> TreeVersion?

    /// The entries behind a place, in order and without a gap, at most so many, the newer ones with their trees; none where nothing has come behind it as far
    /// as is known. Nil where that is not known: then they are in the log.
    func steps(of namespace: Int64, after cursor: LogCursor, most: Int) -> [TreeStep]?

    /// No feed of the namespace is worked here any more.
    func forget(_ namespace: Int64)

    /// Room in memory for trees of feeds' own.
    ///
    /// - Parameter goesOn: whether there is still use for them.
    func room(while goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom
}
