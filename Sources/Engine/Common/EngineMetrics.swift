public import Runtime

/// What the engine counts.
public final class EngineMetrics: Sendable {
    public let writes = Counter()
    public let failedPreconditions = Counter()
    public let deniedWrites = Counter()
    public let failedWrites = Counter()
    public let batches = Counter()
    public let batchSize = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000])
    /// Seconds from sending a batch to its COMMIT's answer.
    public let commitSeconds = Histogram(
        bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10])
    /// Batches that were sent before the database had answered to the one before.
    public let batchesBehind = Counter()
    /// Batches that found the head moved by another gateway.
    public let conflicts = Counter()
    /// Transactions of several namespaces that were committed, and how many namespaces they had.
    public let jointTransactions = Counter()
    public let jointNamespaces = Counter()
    /// Transactions of several namespaces that came to nothing: each of their batches went alone.
    public let jointRetries = Counter()
    public let unknownCommits = Counter()
    /// Named writes that were answered without being done, as they had been before.
    public let repeatedWrites = Counter()
    /// Database connections of vanished peers that were ended, as they held others up.
    public let endedBlockers = Counter()
    /// Writes that were prepared beside the others, and how often one had to be prepared anew.
    public let largeWrites = Counter()
    public let largeWriteRetries = Counter()
    public let notifications = Counter()
    /// Namespaces that were read from the database.
    public let loads = Counter()
    /// Seconds from the first question to the tree.
    public let loadSeconds = Histogram(bounds: [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ])
    /// Namespaces that were let go, as memory was short.
    public let evictions = Counter()
    /// Times that a namespace went back to an older state, as the database had lost entries.
    public let takenBack = Counter()
    /// Entries that were lost so.
    public let takenBackEntries = Counter()

    public init() {}
}

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
