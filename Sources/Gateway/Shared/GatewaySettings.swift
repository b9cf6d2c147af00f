public import HTTPServer
public import Runtime

/// The gateway's settings; every field has a default.
public struct GatewaySettings: Sendable {
    /// The namespace of requests that do not name a namespace.
    public var defaultNamespace = "default"
    /// Whether the first label of a host name of three labels or more (or of `x.localhost`) names the namespace.
    public var namespaceFromHost = true
    /// The web pages that may use the gateway.
    public var pages = PagePolicy.everyPage
    /// The `max-age` of `Strict-Transport-Security` in responses over TLS, in seconds; 0 omits the header.
    public var strictTransportSeconds = 0
    /// The rate limits of callers.
    public var limits = RateLimiterSettings()
    /// Networks that may read metrics and the details of readiness without a credential. This machine always may.
    public var metricsNetworks: [IPNetwork] = []
    /// Bodies larger than this are parsed, and values of more than `heavyRows` rows encoded, by worker threads instead
    /// of the event loops.
    public var heavyBodyBytes = 64 * 1024
    public var heavyRows = 2_000
    /// Number of threads for heavy work.
    public var workers = 2
    /// Maximum body size of an administrator's request in bytes, both compressed and decompressed.
    public var maxBodyBytes = 256 << 20
    /// Maximum body size of every other request in bytes, both compressed and decompressed.
    public var maxPlainBodyBytes = 16 << 20
    /// The memory budget of data that clients send. Shared with the server.
    public var memory = MemoryBudget(bytes: 1 << 30, bytesPerAddress: 256 << 20)
    /// The memory budget of responses and stream events that clients have not read yet. Shared with the server.
    public var output = OutputBudget(bytes: 1 << 30)
    /// Responses of at least this many bytes are compressed for clients that accept gzip.
    public var gzipFromBytes = 1_024
    /// Size in bytes of each event loop's cache of encoded GET responses; 0 disables the cache.
    public var answerCacheBytes = 32 << 20
    /// How long a request may wait for the seq of its `X-Pathmirror-Min-Seq`. Also how long a resuming stream may wait
    /// for the entry that its client has seen, or for an unavailable database.
    public var minSeqWaitMilliseconds: Milliseconds = 10_000
    /// The interval between `keep-alive` events of a stream.
    public var streamKeepAliveMilliseconds: Milliseconds = 30_000
    /// Maximum number of unread bytes of a slow stream; above it the stream is conflated.
    public var streamBufferBytes = 1 << 20
    /// Maximum number of entries replayed to a resuming stream. After more missed entries the stream begins with a
    /// fresh `put`.
    public var maxResumeEntries: Int64 = 100_000
    /// Maximum number of concurrent streams.
    public var maxStreams = 100_000
    /// Maximum number of concurrent readers of the log: requests that are being read for, streams, and waiting
    /// requests.
    public var maxLogReadings = 128
    /// How long a request for the log waits when there is no new entry.
    public var logPollMilliseconds: Milliseconds = 20_000
    /// How long a stream of the log lasts before the gateway ends it and the client reconnects.
    public var logEventsMilliseconds: Milliseconds = 60_000
    /// The prefix of this gateway's realtime session ids, in hex digits. A proxy uses it to route the requests of a
    /// polling client.
    public var sessionLabel = ""
    /// Maximum number of concurrent realtime sessions.
    public var maxSessions = 100_000
    /// Maximum size of one message of a realtime client, in bytes (reference: rtdb-protocol 6.7).
    public var maxMessageBytes = 16 << 20
    /// Maximum number of listens of one realtime session.
    public var maxListens = 10_000
    /// Maximum number of unanswered requests of one realtime session.
    public var maxWaitingRequests = 10_000
    /// Maximum number of requests of one realtime session that may wait for earlier requests or for the loop's next
    /// slice.
    public var maxQueuedRequests = 100_000
    /// Maximum number of onDisconnect operations of one realtime session.
    public var maxDisconnectOperations = 1_000
    /// How long clients whose transactions contend for a path wait for an idle client that holds the slot; 0 disables
    /// the queues.
    public var transactionSlotMilliseconds: Milliseconds = 400
    /// How long a realtime client may be silent, without even answering a ping, before the gateway considers it
    /// disconnected.
    public var sessionTimeoutMilliseconds: Milliseconds = 60_000
    /// How long a realtime client may send only answers to pings before the gateway considers it disconnected. SDKs
    /// send a message every 45 seconds; browsers answer pings even for suspended pages that may never be shown again.
    public var keepAliveTimeoutMilliseconds: Milliseconds = 120_000
    /// Called with the namespace of each request that its rules deny. Any thread; must not block.
    public var onDenial: (@Sendable (_ namespace: String) -> Void)?
    /// The number of log entries that the gateway may lack before it reports that it is not ready.
    public var maxReadyLag: Int64 = 10_000

    /// Registers the functions of the Functions emulator, or nil if the gateway accepts none.
    public var functionRegistry: (any FunctionRegistry)?

    public init() {}
}
