import LogStore
import Runtime
import Tree

/// How trees that are too large for memory get into pages.
extension TreeMemory {
    /// A namespace that has less than this part of the budget in memory is left as it is.
    private static let leastShare = 16
    /// A tree that is being read and takes more than this part of the budget goes into pages when there is too much.
    private static let leastShareRead = 4

    /// Puts the tree that has most in memory into pages, if that is worth it. A committer gives it to the namespace.
    func packLargest() {
        guard let pages, let namespace = largest, namespace.memory.packableBytes > budget / Self.leastShare else {
            return
        }
        let before = namespace.memory.bytes
        let base = namespace.snapshot.root
        var packer = TreePacker(pages) { [self] in goesOn }
        let packed = packer.pack(base)
        logger.debug(
            "namespace put into pages",
            [
                ("namespace", namespace.name), ("rows", "\(packer.packedRows)"),
                ("ofRows", "\(base.rowCount)"),
            ])
        namespace.give(PackedTree(base: base, packed: packed, leftBytes: max(0, before - packer.packedHeapBytes)))
    }

    private var largest: LiveNamespace? {
        namespaces.all.filter { !$0.isBeingPacked }.max { $0.memory.packableBytes < $1.memory.packableBytes }
    }

    /// Puts a tree that is being made of an import into pages, as far as it has come, where there is too much.
    ///
    /// - Parameter grown: about what has been added to it and is in no total, in bytes; 0 afterwards where it was packed.
    func pack(_ application: inout BulkApplication, grown: inout Int) {
        guard let pages, grown > budget / Self.leastShare, total.bytes + grown > budget else { return }
        var packer = TreePacker(pages) { [self] in goesOn }
        application.pack(with: &packer)
        grown = 0
    }

    /// How the reading of a tree goes on, as far as memory is concerned.
    ///
    /// - Parameters:
    ///   - isPacking: whether what is read goes into pages already; set where it does from now on.
    func step(
        _ progress: LogConnection.LoadProgress, isPacking: inout Bool
    ) -> LogConnection.LoadStep {
        guard !isPacking, let pages, isOver,
            progress.heapBytes > budget / Self.leastShareRead
        else { return .goOn }
        isPacking = true
        return .pack(TreePacker(pages) { [self] in goesOn })
    }
}
