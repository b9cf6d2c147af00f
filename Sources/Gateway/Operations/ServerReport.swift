public import HTTPServer
public import Runtime

/// The metrics of the process around the gateway.
public struct ServerReport: Sendable {
    public var server: HTTPServerStatistics
    /// Seconds since 1970; nil without TLS.
    public var certificateExpiresAt: Int64?
    public var mirrors: [MirrorFacts]
    public var feeds: [FeedFacts]
    public var followers: [FollowerFacts]
    public var retention: RetentionFacts
    /// The stall meters of the event loops.
    public var stallMeters: [StallMeter]

    public init(
        server: HTTPServerStatistics = HTTPServerStatistics(), certificateExpiresAt: Int64? = nil,
        mirrors: [MirrorFacts] = [], feeds: [FeedFacts] = [], followers: [FollowerFacts] = [],
        retention: RetentionFacts = RetentionFacts(), stallMeters: [StallMeter] = []
    ) {
        self.stallMeters = stallMeters
        self.server = server
        self.certificateExpiresAt = certificateExpiresAt
        self.mirrors = mirrors
        self.feeds = feeds
        self.followers = followers
        self.retention = retention
    }
}

/// This gateway's results of log retention.
public struct RetentionFacts: Sendable, Equatable {
    public var dropped = 0
    public var failures = 0
    /// Namespaces whose log a reader needs for longer than their policy keeps it.
    public var heldBack = 0

    public init(dropped: Int = 0, failures: Int = 0, heldBack: Int = 0) {
        self.dropped = dropped
        self.failures = failures
        self.heldBack = heldBack
    }
}

/// A mirror's numbers for metrics and readiness.
public struct MirrorFacts: Sendable {
    public let namespace: String
    public let name: String
    /// running, paused, broken, building, or elsewhere (run by another gateway).
    public let state: String
    public let lagEntries: Int64
    public let lagMilliseconds: Int64
    /// The reason if the mirror is broken.
    public let message: String?

    public init(
        namespace: String, name: String, state: String, lagEntries: Int64, lagMilliseconds: Int64, message: String?
    ) {
        self.namespace = namespace
        self.name = name
        self.state = state
        self.lagEntries = lagEntries
        self.lagMilliseconds = lagMilliseconds
        self.message = message
    }
}

/// The metrics of a feed that this gateway runs.
public struct FeedFacts: Sendable {
    public let namespace: String
    public let name: String
    /// Whether its messages are delivered.
    public let isUp: Bool
    public let lagMilliseconds: Milliseconds
    public let heldMessages: Int64
    /// Counted since the feed was created.
    public let acknowledged: Int64
    public let redelivered: Int64
    public let deadLetters: Int64
    /// How long it has delayed pruning beyond the retention.
    public let holdsBackMilliseconds: Milliseconds

    public init(
        namespace: String, name: String, isUp: Bool, lagMilliseconds: Milliseconds, heldMessages: Int64,
        acknowledged: Int64, redelivered: Int64, deadLetters: Int64, holdsBackMilliseconds: Milliseconds
    ) {
        self.namespace = namespace
        self.name = name
        self.isUp = isUp
        self.lagMilliseconds = lagMilliseconds
        self.heldMessages = heldMessages
        self.acknowledged = acknowledged
        self.redelivered = redelivered
        self.deadLetters = deadLetters
        self.holdsBackMilliseconds = holdsBackMilliseconds
    }
}

/// The metrics of a follower that this gateway runs.
public struct FollowerFacts: Sendable {
    public let namespace: String
    /// The name of the state, as in `follow status`.
    public let state: String
    /// Whether `follow status` reports a problem.
    public let hasProblem: Bool
    /// The time from the arrival of the last message to its commit; nil before the first message.
    public let lagMilliseconds: Milliseconds?
    /// Counted since the namespace began to follow, by all gateways.
    public let receivedBytes: Int64
    public let entries: Int64
    public let resyncs: Int64
    /// The bytes received today (UTC), as a share of the daily limit; nil without a limit.
    public let dailyLimitRatio: Double?

    public init(
        namespace: String, state: String, hasProblem: Bool, lagMilliseconds: Milliseconds?, receivedBytes: Int64,
        entries: Int64, resyncs: Int64, dailyLimitRatio: Double?
    ) {
        self.namespace = namespace
        self.state = state
        self.hasProblem = hasProblem
        self.lagMilliseconds = lagMilliseconds
        self.receivedBytes = receivedBytes
        self.entries = entries
        self.resyncs = resyncs
        self.dailyLimitRatio = dailyLimitRatio
    }

    /// Whether the namespace receives the upstream's messages.
    var isUp: Bool { state == "following" && !hasProblem }
}
