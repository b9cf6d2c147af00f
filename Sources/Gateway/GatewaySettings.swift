/// How the doors behave; every field has its default.
public struct GatewaySettings: Sendable {
    /// The namespace of requests that name none.
    public var defaultNamespace = "default"
    /// Whether the first label of a host name of three labels or more (or of `x.localhost`) names the namespace.
    public var namespaceFromHost = true
    /// Bodies over this are parsed, and values of more rows than `heavyRows` encoded, away from the event loops.
    public var heavyBodyBytes = 64 * 1024
    public var heavyRows = 2_000
    /// Threads for heavy work.
    public var workers = 2
    /// The most bytes that a request's body may have once it is unpacked.
    public var maxBodyBytes = 256 << 20
    /// Responses from this size on are packed for clients that accept gzip.
    public var gzipFromBytes = 1_024
    /// How long a request may wait for the seq of its `X-Pathmirror-Min-Seq`.
    public var minSeqWaitMilliseconds = 10_000
    /// How often a stream is sent a `keep-alive`.
    public var streamKeepAliveMilliseconds = 30_000
    /// Bytes that may wait for a slow stream; over it the stream is conflated.
    public var streamBufferBytes = 1 << 20
    /// The most entries that a stream is replayed when it resumes; from further back it begins with a fresh `put`.
    public var maxResumeEntries: Int64 = 100_000
    /// The most streams at once.
    public var maxStreams = 100_000
    /// Entries that may be in the log and not yet here before the gateway calls itself not ready.
    public var maxReadyLag: Int64 = 10_000

    public init() {}
}
