/// What the namespaces in memory take of it.
public struct MemoryFacts: Sendable, Equatable {
    /// How many namespaces are in memory.
    public let namespaces: Int
    /// What they take, in bytes, by estimate.
    public let bytes: Int
    /// What they may take before some are let go; `Int.max` where there is no bound.
    public let budget: Int
    /// Namespaces that wait to be loaded.
    public let waitingLoads: Int
    /// Parts of trees that may be on the disk; nil where there are none.
    public let pages: PageFacts?

    /// With what another engine of the same budget has in memory. Bytes are of all engines that share it already.
    public func adding(_ other: MemoryFacts) -> MemoryFacts {
        MemoryFacts(
            namespaces: namespaces + other.namespaces, bytes: bytes, budget: budget,
            waitingLoads: waitingLoads + other.waitingLoads, pages: pages)
    }
}

/// What pages, which are parts of trees that may be on the disk, take.
public struct PageFacts: Sendable, Equatable {
    /// Of memory, in bytes; a part of what trees take.
    public let bytesInMemory: Int
    /// Of the file, in bytes.
    public let bytesInFile: Int
    /// How often one was read from the file.
    public let reads: Int
    /// How often one was written.
    public let writes: Int
}
