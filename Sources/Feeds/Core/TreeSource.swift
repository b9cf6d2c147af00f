public import LogStore
public import Tree

/// A namespace's tree at an entry of the log.
public struct TreeVersion: Sendable {
    public let seq: Int64
    public let root: Node

    public init(seq: Int64, root: Node) {
        self.seq = seq
        self.root = root
    }
}

/// A step of a namespace's tree: a committed entry, and the trees before and after it if they are still known.
public struct TreeStep: Sendable {
    public let entry: Entry
    /// The id of the batch in which the entry was committed.
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

/// A source of mostly recent trees of namespaces, which saves rebuilding them from the log. Usable on any thread; no method blocks.
public protocol TreeSource: Sendable {
    /// Starts keeping the trees of a namespace, and starts loading the namespace if it is not in memory. Until `forget`, calls
    /// `body` when the load has ended and soon after each commit, on a thread that `body` must not block.
    ///
    /// - Parameter name: The namespace's name. A namespace of this name with another id is ignored.
    func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void)

    /// Returns whether a watched namespace is still being loaded. The source knows no trees of it until then.
    func isComing(_ namespace: Int64) -> Bool

    /// Returns the tree at the entry or at one shortly before it, or nil if the source has none.
    func tree(of namespace: Int64, at seq: Int64) -> TreeVersion?

    /// Returns the entries after a position, in order and without a gap, at most `most`; the newer entries come with their trees.
    /// Returns an empty array if no later entry is known, and nil if the entries must be read from the log.
    func steps(of namespace: Int64, after cursor: LogPosition, most: Int) -> [TreeStep]?

    /// Stops keeping the namespace's trees: none of its feeds runs on this gateway any longer.
    func forget(_ namespace: Int64)

    /// Returns a memory budget for trees that feeds build themselves.
    ///
    /// - Parameter shouldContinue: Returns whether the trees are still needed.
    func room(while shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget
}
