public import HTTPServer
public import Runtime

/// How the gateway behaves; every field has its default.
public struct GatewaySettings: Sendable {
    /// The namespace of requests that name none.
    public var defaultNamespace = "default"
    /// Whether the first label of a host name of three labels or more (or of `x.localhost`) names the namespace.
    public var namespaceFromHost = true
    /// Which web pages may use the gateway.
    public var pages = PagePolicy.everyPage
    /// For how long browsers that come over TLS are told to use nothing else for this host; 0: they are not told.
    public var strictTransportSeconds = 0
    /// How much callers may ask.
    public var limits = RateLimiterSettings()
    /// Who may read metrics and the details of readiness without a credential, besides this machine.
    public var metricsNetworks: [IPNetwork] = []
    /// Bodies over this are parsed, and values of more rows than `heavyRows` encoded, away from the event loops.
    public var heavyBodyBytes = 64 * 1024
    public var heavyRows = 2_000
    /// Threads for heavy work.
    public var workers = 2
    /// The most bytes that the body of an administrator's request may have, packed and once it is unpacked.
    public var maxBodyBytes = 256 << 20
    /// The same of everybody else.
    public var maxPlainBodyBytes = 16 << 20
    /// What strangers' data may take of memory; the server's, too.
    public var memory = MemoryBudget(bytes: 1 << 30, bytesPerAddress: 256 << 20)
    /// What responses and streams may hold that wait for their readers; the server's, too.
    public var output = OutputBudget(bytes: 1 << 30)
    /// Responses from this size on are packed for clients that accept gzip.
    public var gzipFromBytes = 1_024
    /// What each event loop may keep of values that it has written out for GETs, for who asks for the same again; 0: nothing.
    public var answerCacheBytes = 32 << 20
    /// How long a request may wait for the seq of its `X-Pathmirror-Min-Seq`, and a stream that resumes for the entry that its
    /// client has seen, or for a database that is away.
    public var minSeqWaitMilliseconds: Milliseconds = 10_000
    /// How often a stream is sent a `keep-alive`.
    public var streamKeepAliveMilliseconds: Milliseconds = 30_000
    /// Bytes that may wait for a slow stream; over it the stream is conflated.
    public var streamBufferBytes = 1 << 20
    /// The most entries that a stream is replayed when it resumes; from further back it begins with a fresh `put`.
    public var maxResumeEntries: Int64 = 100_000
    /// The most streams at once.
    public var maxStreams = 100_000
    /// The most readers of the log at once: requests that are read for, streams, and requests that wait.
    public var maxLogReadings = 128
    /// How long a request for the log waits when there is nothing for it.
    public var logPollMilliseconds: Milliseconds = 20_000
    /// After how long a stream of the log ends, for its client to come back.
    public var logEventsMilliseconds: Milliseconds = 60_000
    /// What the ids of this gateway's realtime sessions begin with, in hex digits: by it a proxy knows whom to send a
    /// polling client's requests to.
    public var sessionLabel = ""
    /// The most realtime sessions at once.
    public var maxSessions = 100_000
    /// The most bytes that one message of a realtime client may have (reference: rtdb-protocol 6.7).
    public var maxMessageBytes = 16 << 20
    /// The most listens of one realtime session.
    public var maxListens = 10_000
    /// The most requests of one realtime session that may wait for an answer.
    public var maxWaitingRequests = 10_000
    /// The most requests of one realtime session that may wait for those before them, or for the loop's next slice.
    public var maxQueuedRequests = 100_000
    /// The most onDisconnect operations of one realtime session.
    public var maxDisconnectOperations = 1_000
    /// How long clients whose transactions contend for a path wait for one that has the slot and does nothing; 0: nobody
    /// waits.
    public var transactionSlotMilliseconds: Milliseconds = 400
    /// How long a realtime client may say nothing, not even answer a ping, before it is taken for gone.
    public var sessionTimeoutMilliseconds: Milliseconds = 60_000
    /// How long a realtime client may send nothing but answers to pings before it is taken for gone. SDKs send something
    /// every 45 seconds; browsers answer pings for pages that they have put aside and may never show again.
    public var keepAliveTimeoutMilliseconds: Milliseconds = 120_000
    /// Entries that may be in the log and not yet here before the gateway calls itself not ready.
    public var maxReadyLag: Int64 = 10_000

    public init() {}
}
