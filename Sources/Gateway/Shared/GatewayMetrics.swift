public import Runtime

/// The gateway's counters and gauges.
public final class GatewayMetrics: Sendable {
    public let reads = Counter()
    /// Reads that the answer cache served.
    public let readsKept = Counter()
    public let writes = Counter()
    public let streams = Gauge()
    public let streamsOpened = Counter()
    public let streamsResumed = Counter()
    public let streamEvents = Counter()
    public let conflations = Counter()
    public let logReadings = Gauge()
    public let sessions = Gauge()
    public let sessionsOpened = Counter()
    public let waitingTransactions = Gauge()
    public let listens = Gauge()
    public let listensResumed = Counter()
    /// Streams and listens that tried to resume and got a fresh value instead.
    public let resumesFresh = Counter()
    /// Listens that tried to resume and were asked to compare hashes, because that is cheaper than reading the log.
    public let resumesCompared = Counter()
    public let listenEvents = Counter()
    public let clientErrors = Counter()
    public let serverErrors = Counter()

    public init() {}
}
