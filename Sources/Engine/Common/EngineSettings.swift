import Rules
public import Runtime

/// The engine's settings; every field has a default.
public struct EngineSettings: Sendable {
    /// The gateway's program, such as `0.2.0-dev+4ba6e39d01f2, schema 29`. Other programs read it in `pg_stat_activity`.
    public var program = ""
    /// Threads that commit, each with a connection. Namespaces commit in parallel; the batches of one namespace commit
    /// in sequence.
    public var committers = 4
    /// Maximum number of writes in one SQL transaction.
    public var maxBatchWrites = 1_000
    /// Approximate number of bytes of values at which a batch is closed. A larger write gets a transaction of its own.
    public var maxBatchBytes = 2 << 20
    /// Maximum time that a batch waits for new writes of the clients that were just answered; 0: no wait.
    public var batchWaitMicroseconds: Int64 = 1_000
    /// Maximum number of batches of a namespace that are in flight to the database at once; 1: each waits for the
    /// previous one.
    public var batchesInFlight = 2
    /// Maximum number of namespaces whose batches share one SQL transaction; 1: each has its own.
    public var sharedTransactionNamespaces = 64
    /// Maximum number of rows in the writes of one shared transaction. `maxBatchBytes` limits the bytes of
    /// their values.
    public var sharedTransactionRows = 1_000
    /// Maximum time that a shared transaction waits for one lock before each of its batches continues alone.
    public var sharedTransactionLockMilliseconds: Milliseconds = 10
    /// Time for which a committer evaluates batches for a shared transaction before it sends those that are evaluated.
    public var sharedTransactionEvaluationMicroseconds: Int64 = 5_000
    /// Maximum number of a namespace's writes that may wait for a commit; further writes are rejected.
    public var maxWaitingWrites = 50_000
    /// Maximum number of bytes of values in a namespace's waiting writes; further writes are rejected.
    public var maxWaitingBytes = 512 << 20
    /// Time that a write may wait for a lost database before it fails.
    public var commitDeadlineMilliseconds: Int64 = 10_000
    /// Time that a database connection may block committers without receiving anything from its client.
    var blockerPatience = BlockerPatience()
    /// Threads that read whole logs; each opens a connection when needed.
    public var logReaders = 2
    /// Limits for one read of a log.
    public var logReads = LogReadLimits()
    /// A write of more bytes or more rows than this is prepared separately by the large writer.
    public var largeWriteBytes = 1 << 20
    public var largeWriteRows = 20_000
    /// The estimated bytes of memory that trees may take. Beyond it, the gateway evicts unused namespaces.
    public var treeMemoryBytes = Int.max
    /// Time after each use for which a namespace counts as in use, unless trees take more than twice `treeMemoryBytes`.
    public var recentUseMilliseconds: Milliseconds = 5_000
    /// Threads that load namespaces; each opens a connection when needed.
    public var loaders = 2
    /// Maximum number of namespaces waiting to be loaded; further ones are rejected.
    public var maxWaitingLoads = 10_000
    /// Minimum time between two announcements of commits to other gateways and programs.
    public var announceMilliseconds: Milliseconds = 2
    /// How often the gateway checks the heads even though no commit was announced.
    public var pollMilliseconds: Milliseconds = 1_000
    /// How often the gateway renews its lease by a heartbeat.
    public var heartbeatMilliseconds: Int64 = 3_000
    /// Time without a heartbeat after which a gateway's lease expires and others execute its sessions' onDisconnect
    /// operations.
    public var leaseExpiryMilliseconds: Int64 = 15_000
    /// Whether the gateway creates a requested namespace that does not exist.
    public var createsNamespaces = false

    /// The rules of namespaces without rules of their own. By default only administrators have access.
    public var defaultRules = RulesVersion(seq: 0, set: .denyAll, enforcesIndexes: false)

    /// Time for which a committer may work without a pause and without waiting for the database before the gateway logs
    /// a stall; 0: never.
    public var longStallMilliseconds: Milliseconds = 100

    /// The number of the engine's database within the program, and its name in logs and metrics. The primary database
    /// has 0 and no name.
    public var database = 0
    public var databaseName = ""

    public init() {}
}

/// Limits for one read of a log.
public struct LogReadLimits: Sendable {
    /// Maximum number of entries of one slice.
    public var sliceEntries = 500
    /// Approximate number of bytes of lines in one slice. A slice has at least one line if there is any.
    public var sliceBytes = 1 << 20
    /// Maximum number of parts of an entry that are read for one slice, with or without lines.
    public var sliceParts = 8

    public init() {}
}

/// Time that a connection may block committers without receiving anything from its client.
struct BlockerPatience: Sendable {
    /// Time for a gateway's connection. PostgreSQL does not show a message that is still arriving, so this must be
    /// longer than a slow network takes to send the data that is sent under the head's lock (see
    /// `EngineSettings.maxBatchBytes`).
    var gatewayMilliseconds: Milliseconds = 6_000
    /// Time for any other Pathmirror program, such as an import, which may read from a slow source.
    var otherMilliseconds: Milliseconds = 60_000
}
