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

/// Knows trees of namespaces, mostly recent ones, so that they need not be made from the log once more. Any thread may ask.
public protocol TreeSource: Sendable {
    /// The tree as of that entry, or of one that is not long before; nil where there is none. May wait for some seconds until the
    /// namespace is loaded.
    func tree(of namespace: String, at seq: Int64) -> TreeVersion?

    /// No feed of the namespace is worked here any more.
    func forget(_ namespace: String)
}
