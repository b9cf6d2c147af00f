public import HTTPServer
public import Runtime

/// What the metrics tell of the process around the gateway.
public struct ServerReport: Sendable {
    public var server: HTTPServerStatistics
    /// Seconds since 1970; nil where nothing is served over TLS.
    public var certificateExpiresAt: Int64?
    public var mirrors: [MirrorFacts]
    public var feeds: [FeedFacts]
    /// What kept each event loop from all else.
    public var stretches: [StretchMeter]

    public init(
        server: HTTPServerStatistics = HTTPServerStatistics(), certificateExpiresAt: Int64? = nil,
        mirrors: [MirrorFacts] = [], feeds: [FeedFacts] = [], stretches: [StretchMeter] = []
    ) {
        self.stretches = stretches
        self.server = server
        self.certificateExpiresAt = certificateExpiresAt
        self.mirrors = mirrors
        self.feeds = feeds
    }
}
