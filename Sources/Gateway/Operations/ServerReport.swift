public import HTTPServer
public import Runtime

/// What the metrics tell of the process around the gateway.
public struct ServerReport: Sendable {
    public var server: HTTPServerStatistics
    /// Seconds since 1970; nil where nothing is served over TLS.
    public var certificateExpiresAt: Int64?
    public var mirrors: [MirrorFacts]
    public var feeds: [FeedFacts]
    public var retention: RetentionFacts
    /// What kept each event loop from all else.
    public var stretches: [StretchMeter]

    public init(
        server: HTTPServerStatistics = HTTPServerStatistics(), certificateExpiresAt: Int64? = nil,
        mirrors: [MirrorFacts] = [], feeds: [FeedFacts] = [], retention: RetentionFacts = RetentionFacts(),
        stretches: [StretchMeter] = []
    ) {
        self.stretches = stretches
        self.server = server
        self.certificateExpiresAt = certificateExpiresAt
        self.mirrors = mirrors
        self.feeds = feeds
        self.retention = retention
    }
}

/// What this gateway has done about logs that are shortened by themselves.
public struct RetentionFacts: Sendable, Equatable {
    public var dropped = 0
    public var failures = 0
    /// Namespaces whose log somebody still needs more of than their policy keeps.
    public var heldBack = 0

    public init(dropped: Int = 0, failures: Int = 0, heldBack: Int = 0) {
        self.dropped = dropped
        self.failures = failures
        self.heldBack = heldBack
    }
}
