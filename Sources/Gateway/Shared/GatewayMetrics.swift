public import Runtime

/// What the gateway counts.
public final class GatewayMetrics: Sendable {
    public let reads = Counter()
    /// Those of them whose answer was there already.
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
    /// Streams and listens that named an entry and got a fresh value.
    public let resumesFresh = Counter()
    /// Listens that named an entry and were told to compare hashes, as that is less work than to read the log.
    public let resumesCompared = Counter()
    public let listenEvents = Counter()
    public let clientErrors = Counter()
    public let serverErrors = Counter()

    public init() {}
}
