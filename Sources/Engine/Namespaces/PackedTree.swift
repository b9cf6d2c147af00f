import Tree

/// A namespace's tree with pages, as of some entry, and who knows what has been written since.
struct PackedTree: Sendable {
    private(set) var root: Node
    private(set) var seq: Int64
    let recorder: PackingRecorder
    /// What of it was not in pages before anything that was written was done to it, in bytes; nil where there was no room for all that
    /// can be.
    let leftBytes: Int?

    init(_ root: Node, seq: Int64, _ recorder: PackingRecorder, leftBytes: Int?) {
        self.root = root
        self.seq = seq
        self.recorder = recorder
        self.leftBytes = leftBytes
    }

    /// Does to it what has been written since. How many entries that were; nil where some of it isn't known.
    mutating func catchUp() -> Int? {
        guard let writes = recorder.take() else { return nil }
        for changes in writes.changes { root = root.replacing(changes) }
        if let last = writes.seq { seq = last }
        return writes.changes.count
    }
}
