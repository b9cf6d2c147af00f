import Rules
public import Runtime

/// How the engine works; every field has its default.
public struct EngineSettings: Sendable {
    /// What the gateway's program is, such as `0.1.0, schema 16`: other programs find it in `pg_stat_activity`.
    public var program = ""
    /// Threads that commit, each with a connection. Namespaces commit side by side, the batches of one after another.
    public var committers = 4
    /// The most writes in one SQL transaction.
    public var maxBatchWrites = 1_000
    /// About how many bytes of values one SQL transaction takes before it is closed; a larger write goes alone.
    public var maxBatchBytes = 2 << 20
    /// How long a batch waits at most for those to write again who were just answered; 0: it doesn't.
    public var batchWaitMicroseconds: Int64 = 1_000
    /// The most batches of a namespace that are under way to the database at once; 1: each waits for the one before.
    public var batchesUnderWay = 2
    /// The most namespaces whose batches share one SQL transaction; 1: each has its own.
    public var jointNamespaces = 64
    /// The most rows, by what the writes bring, of such a transaction. Its values have `maxBatchBytes`.
    public var jointRows = 1_000
    /// How long such a transaction waits for one lock, until each of its batches goes alone.
    public var jointLockMilliseconds: Milliseconds = 10
    /// How long batches are evaluated for such a transaction until it is sent with those that are.
    public var jointEvaluationMicroseconds: Int64 = 5_000
    /// The most writes of a namespace that may wait to be committed; more are refused.
    public var maxWaitingWrites = 50_000
    /// The most bytes of values in waiting writes of a namespace; more are refused.
    public var maxWaitingBytes = 512 << 20
    /// How long a write may wait for a lost database before it fails.
    public var commitDeadlineMilliseconds: Int64 = 10_000
    /// How long a database connection that keeps committers waiting may hear nothing of its client.
    var blockerPatience = BlockerPatience()
    /// Threads that read logs for those who want them whole; each has a connection while it is needed.
    public var logReaders = 2
    /// How much of a log is read at once.
    public var logReads = LogReadLimits()
    /// A write of more bytes than this, or of more rows, is prepared beside the others instead of among them.
    public var largeWriteBytes = 1 << 20
    public var largeWriteRows = 20_000
    /// What the trees in memory may take of it, in bytes, by estimate: beyond it namespaces that nobody uses are let go.
    public var treeMemoryBytes = Int.max
    /// How long after each use a namespace counts as in use, unless trees take more than twice `treeMemoryBytes`.
    public var recentUseMilliseconds: Milliseconds = 5_000
    /// Threads that load namespaces, each with a connection while it is needed.
    public var loaders = 2
    /// The most namespaces that may wait to be loaded; more are refused.
    public var maxWaitingLoads = 10_000
    /// The least time between two announcements to others of what is committed.
    public var announceMilliseconds: Milliseconds = 2
    /// How often the heads are looked at although nothing was announced.
    public var pollMilliseconds: Milliseconds = 1_000
    /// How often the gateway says that it is alive.
    public var heartbeatMilliseconds: Int64 = 3_000
    /// How long a gateway may say nothing until its lease expires and others execute its sessions' onDisconnect operations.
    public var leaseExpiryMilliseconds: Int64 = 15_000
    /// Whether a namespace that is asked for is made when it doesn't exist.
    public var createsNamespaces = false

    /// The rules of namespaces that have none of their own. Unless told otherwise, nobody but administrators gets in.
    public var defaultRules = RulesVersion(seq: 0, set: .denyAll, enforcesIndexes: false)

    /// What a committer may do without a pause, and without waiting for the database, before the log says so; 0: never.
    public var longStretchMilliseconds: Milliseconds = 100

    /// Which of the program's databases it is, and its name in logs and metrics; 0 and none for the home.
    public var database = 0
    public var databaseName = ""

    public init() {}
}

/// How much of a log is read at once.
public struct LogReadLimits: Sendable {
    /// The most entries of one slice.
    public var sliceEntries = 500
    /// About how many bytes of lines one slice has; it always has one line where there is any.
    public var sliceBytes = 1 << 20
    /// The most parts of an entry that are looked at for one slice, whether they have lines or not.
    public var sliceParts = 8

    public init() {}
}

/// How long a connection that keeps committers waiting may hear nothing of its client.
struct BlockerPatience: Sendable {
    /// For a gateway's connection. PostgreSQL shows nothing of a message that is still coming: it has to be longer than a
    /// slow line takes for what is sent under the head's lock (see `EngineSettings.maxBatchBytes`).
    var gatewayMilliseconds: Milliseconds = 6_000
    /// For any other program of this one's, such as an import, which may read from something slow.
    var otherMilliseconds: Milliseconds = 60_000
}
