import LogStore
import Runtime
import Tree

/// How trees that are too large for memory get into pages.
extension TreeMemory {
    /// A namespace that has less than this part of the budget in memory is left as it is.
    private static let leastShare = 16
    /// A tree that is being read and takes more than this part of the budget goes into pages when there is too much.
    private static let leastShareRead = 4
    /// What is written while a tree is put into pages and takes more than this part of the budget has the packing given up.
    private static let leastShareRecorded = 4

    /// Puts the tree that has most in memory into pages, if that is worth it. A committer gives it to the namespace.
    func packLargest() {
        guard let pages, let namespace = largest, namespace.memory.packableBytes > budget / Self.leastShare else {
            return
        }
        let start = Clock.monotonicMilliseconds
        let recorder = PackingRecorder(mostBytes: budget / Self.leastShareRecorded)
        let base = namespace.subscribe(recorder, at: .root)
        var packer = TreePacker(pages) { [self] in goesOn }
        let packed = packer.pack(base.root)
        logger.debug(
            "namespace put into pages",
            [
                ("namespace", namespace.name), ("rows", "\(packer.packedRows)"),
                ("ofRows", "\(base.root.rowCount)"),
            ])
        // By a count of this very tree: what is thought to be in memory may be of another by now.
        let left = packed.heapBytesOfTree + base.rules.heapBytes
        var tree = PackedTree(packed, seq: base.seq, recorder, leftBytes: packer.hasEnded ? nil : left)
        // Here as far as it goes: the committer has the rest, and writers wait for it.
        for _ in 0..<Self.mostRounds {
            guard let count = tree.catchUp(), count > Self.fewWrites else { break }
        }
        let now = Clock.monotonicMilliseconds
        // Half of the time at most; and where there was no room in the page file, it has to come first.
        namespace.memory.mayBePacked(from: now + (packer.hasEnded ? max(now - start, Self.pauseWhenFull) : now - start))
        namespace.give(tree)
    }

    /// A tree that found no room in the page file is not tried again before then.
    private static let pauseWhenFull: Milliseconds = 60_000

    /// How often what was written meanwhile is done to the packed tree, and how few writes are left to the committer.
    private static let mostRounds = 32
    private static let fewWrites = 100

    private var largest: LiveNamespace? {
        let now = Clock.monotonicMilliseconds
        return namespaces.all.filter { !$0.isBeingPacked && $0.memory.mayBePacked(at: now) }.max {
            $0.memory.packableBytes < $1.memory.packableBytes
        }
    }

    /// Puts a tree that is being made of an import into pages, as far as it has come, where there is too much.
    ///
    /// - Parameter grown: about what has been added to it and is in no total, in bytes; 0 afterwards where it was packed.
    func pack(_ application: inout BulkApplication, grown: inout Int, of memory: NamespaceMemory) {
        guard let pages, grown > budget / Self.leastShare, total.bytes + grown > budget else { return }
        var packer = TreePacker(pages) { [self] in goesOn }
        application.pack(with: &packer)
        memory.notePages()
        grown = 0
    }

    /// How the reading of a tree goes on, as far as memory is concerned.
    ///
    /// - Parameter packedAt: what was in memory when it began to go into pages last; nil where it hasn't.
    func step(_ progress: LogConnection.LoadProgress, packedAt: inout Int?) -> LogConnection.LoadStep {
        guard !progress.isPacking, let pages, isOver else { return .goOn }
        // Where there was no room in the pages, it is tried again when there is more to put there.
        guard progress.heapBytes - (packedAt ?? 0) > budget / Self.leastShareRead else { return .goOn }
        packedAt = progress.heapBytes
        return .pack(TreePacker(pages) { [self] in goesOn })
    }
}
