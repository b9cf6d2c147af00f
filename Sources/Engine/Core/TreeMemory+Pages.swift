import LogStore
import Tree

/// How trees that are too large for memory get into pages: while they are loaded, and while an import is applied to them.
extension TreeMemory {
    /// A tree that takes less than this part of the budget is read into memory whole.
    private static let leastShare = 16

    /// Decides whether the rest of a tree that is being read stays in memory or goes into pages.
    ///
    /// - Parameter packedAt: what was in memory when it began to go into pages last; nil where it hasn't.
    func step(_ progress: LogConnection.LoadProgress, packedAt: inout Int?) -> LogConnection.LoadStep {
        guard !progress.isPacking, let pages, isOver else { return .goOn }
        // Where there was no room in the pages, it is tried again when there is more to put there.
        guard progress.heapBytes - (packedAt ?? 0) > budget / Self.leastShare else { return .goOn }
        packedAt = progress.heapBytes
        return .pack(TreePacker(pages) { [self] in goesOn })
    }

    /// Counts a tree that has been read, and puts it into pages if trees exceed the budget. During the read the size was an estimate that did
    /// not include the last rows.
    ///
    /// - Parameters:
    ///   - memory: takes the count.
    ///   - packedAt: as for `step`.
    /// - Returns: The tree, and whether the packer put everything into pages that pages can hold.
    func settle(
        _ loaded: LogConnection.LoadedTree, _ rules: RulesVersion, _ memory: NamespaceMemory, packedAt: inout Int?,
        _ health: DatabaseHealth
    ) -> (root: Node, isInPages: Bool) {
        memory.wasRead(isInPages: loaded.isInPages)
        memory.count(loaded.root, rules)
        guard let pages, memory.bytes > budget / Self.leastShare else { return (loaded.root, loaded.isInPages) }
        makeRoom(health)
        guard isOver, pages.hasRoom else { return (loaded.root, loaded.isInPages) }
        packedAt = memory.bytes
        var packer = TreePacker(pages) { [self] in goesOn }
        let root = packer.pack(loaded.root)
        memory.wasRead(isInPages: !packer.hasEnded)
        memory.count(root, rules)
        return (root, !packer.hasEnded)
    }

    /// Puts a tree into pages while an import is applied to it, if trees exceed the budget.
    ///
    /// - Parameter grown: The estimated bytes added since the last packing, which no total includes. Set to 0 after packing.
    func pack(_ application: inout BulkApplication, grown: inout Int, of memory: NamespaceMemory) {
        guard let pages, grown > budget / Self.leastShare, total.bytes + grown > budget else { return }
        var packer = TreePacker(pages) { [self] in goesOn }
        application.pack(with: &packer)
        memory.notePages()
        grown = 0
    }
}
