import Tree

/// A tree and the same with pages, for a namespace that may have gone on since.
struct PackedTree: Sendable {
    let base: Node
    let packed: Node
    /// What is left in memory of it, in bytes, by estimate.
    let leftBytes: Int
}
