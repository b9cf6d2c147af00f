public import Tree

/// The tree of a namespace as of one seq. Immutable: reading it waits for nobody.
public struct Snapshot: Sendable {
    public let seq: Int64
    public let root: Node

    public init(seq: Int64, root: Node) {
        self.seq = seq
        self.root = root
    }
}

/// One entry, with the tree before and after it.
public struct Step: Sendable {
    public let entry: Entry
    public let before: Node
    public let after: Node
}
