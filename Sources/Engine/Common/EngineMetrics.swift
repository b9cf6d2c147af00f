public import Runtime

/// The engine's metrics.
public final class EngineMetrics: Sendable {
    public let writes = Counter()
    public let failedPreconditions = Counter()
    public let deniedWrites = Counter()
    public let failedWrites = Counter()
    public let batches = Counter()
    public let batchSize = Histogram(bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000])
    /// Seconds from sending a batch to the database's answer to its COMMIT.
    public let commitSeconds = Histogram(
        bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10])
    /// Batches sent before the database had answered the previous batch.
    public let pipelinedBatches = Counter()
    /// Batches that failed because another gateway had moved the head.
    public let conflicts = Counter()
    /// Committed shared transactions, and the number of namespaces in them.
    public let sharedTransactions = Counter()
    public let sharedTransactionNamespaces = Counter()
    /// Shared transactions that failed. Each of their batches then continued alone.
    public let sharedTransactionRetries = Counter()
    public let unknownCommits = Counter()
    /// Named writes that were answered without being executed, because they had been executed before.
    public let repeatedWrites = Counter()
    /// Database connections of vanished peers that the gateway ended because they blocked committers.
    public let endedBlockers = Counter()
    /// Writes that the large writer prepared, and how often it had to prepare one again.
    public let largeWrites = Counter()
    public let largeWriteRetries = Counter()
    public let notifications = Counter()
    /// Namespaces loaded from the database.
    public let loads = Counter()
    /// Seconds from the start of reading a tree until its namespace is ready.
    public let loadSeconds = Histogram(bounds: [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ])
    /// Namespaces evicted because memory was short.
    public let evictions = Counter()
    /// Times that a namespace returned to an older state because the database had lost entries.
    public let rolledBack = Counter()
    /// Entries that the database had lost in these cases.
    public let rolledBackEntries = Counter()

    public init() {}
}

/// The memory use of the loaded namespaces.
public struct MemoryFacts: Sendable, Equatable {
    /// The number of loaded namespaces.
    public let namespaces: Int
    /// The estimated bytes of memory that trees take.
    public let bytes: Int
    /// The bytes of memory that trees may take before the gateway evicts namespaces; `Int.max` if unlimited.
    public let budget: Int
    /// The number of namespaces waiting to be loaded.
    public let waitingLoads: Int
    /// The pages of trees, or nil without a page file.
    public let pages: PageFacts?

    /// Adds the facts of another engine that shares the budget. `bytes` already includes all engines of the budget.
    public func adding(_ other: MemoryFacts) -> MemoryFacts {
        MemoryFacts(
            namespaces: namespaces + other.namespaces, bytes: bytes, budget: budget,
            waitingLoads: waitingLoads + other.waitingLoads, pages: pages)
    }
}

/// The use of memory and disk by pages, which are parts of trees that may be on the disk.
public struct PageFacts: Sendable, Equatable {
    /// The bytes of pages in memory. The bytes of trees include them.
    public let bytesInMemory: Int
    /// The bytes of pages in the file.
    public let bytesInFile: Int
    /// The number of pages read from the file.
    public let reads: Int
    /// The number of pages written to the file.
    public let writes: Int
}
