import Engine
import HTTPServer
import Placement
import Runtime
import Tree

/// The sources of metrics: counters shared with the gateway's threads, and values copied for one page.
struct MetricSources {
    /// Maximum number of feeds with series of their own, in the order of their names. It limits the size of a page.
    static let mostFeeds = 1_000
    /// Maximum number of followers with series of their own, in the order of their namespaces.
    static let mostFollowers = 1_000

    /// Counters of the engines of all databases.
    var engine = EngineMetrics()
    var gateway = GatewayMetrics()
    /// Whether each database answers, the primary database first.
    var databases: [(name: String, isUp: Bool)] = []
    var namespaces = NamespaceGauges([NamespaceGauges.Facts]())
    /// Nil until the first engine has started.
    var memory: MemoryFacts?
    /// How often each rate limit was exceeded.
    var rateLimited: [(limit: String, count: Int)] = []
    var server = HTTPServerStatistics()
    /// Seconds since 1970; nil without TLS.
    var certificateExpiresAt: Int64?
    /// The mirrors that this gateway runs.
    var mirrors: [MirrorFacts] = []
    /// The feeds that this gateway runs, by name, at most `mostFeeds`.
    var feeds: [FeedFacts] = []
    /// The followers that this gateway runs, by namespace.
    var followers: [FollowerFacts] = []
    var retention = RetentionFacts()
    /// The longest stall of each measured thread.
    var stalls: [(thread: String, seconds: Double)] = []
    var requestMemory = (taken: 0, refused: 0)
    var output = (queued: 0, refused: 0)

    init() {}

    init(_ facts: GatewayMetricFacts) {
        let report = facts.serverReport()
        let all = facts.databases.all
        engine = facts.databases.primary.engine.metrics
        gateway = facts.metrics
        databases = facts.databases.reachable
        namespaces = NamespaceGauges(all.flatMap(\.engine.liveNamespaces))
        memory = facts.databases.memory
        rateLimited = facts.limiter.counts.map { ($0.kind.rawValue, $0.count) }
        server = report.server
        certificateExpiresAt = report.certificateExpiresAt
        mirrors = report.mirrors.filter { $0.state != "elsewhere" }
        feeds = Self.shown(report.feeds)
        followers = report.followers.sorted { $0.namespace < $1.namespace }
        retention = report.retention
        stalls = (report.stallMeters + all.flatMap(\.engine.stallMeters)).map {
            ($0.name, Double($0.longest) / 1_000_000_000)
        }
        requestMemory = (facts.memory.taken, facts.memory.refused)
        output = (facts.output.taken, facts.output.refused)
    }

    /// Returns the first `mostFeeds` feeds by name.
    static func shown(_ feeds: [FeedFacts]) -> [FeedFacts] {
        Array(feeds.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }.prefix(mostFeeds))
    }

    /// Returns a number of each feed; nil without feeds.
    func ofFeeds<Number>(_ number: (FeedFacts) -> Number) -> [(String, Number)]? {
        feeds.isEmpty ? nil : feeds.map { ("\($0.namespace)/\($0.name)", number($0)) }
    }

    /// Returns a number of each mirror; nil without mirrors.
    func ofMirrors<Number>(_ number: (MirrorFacts) -> Number) -> [(String, Number)]? {
        mirrors.isEmpty ? nil : mirrors.map { ("\($0.namespace)/\($0.name)", number($0)) }
    }

    /// Returns a number of each of the first `mostFollowers` followers that has one; nil if none has one.
    func ofFollowers<Number>(_ number: (FollowerFacts) -> Number?) -> [(String, Number)]? {
        let all = followers.prefix(Self.mostFollowers).compactMap { facts in
            number(facts).map { (facts.namespace, $0) }
        }
        return all.isEmpty ? nil : all
    }

    /// Returns the number of followers in each state, by the name of the state; nil without followers.
    var followersByState: [(String, Int)]? {
        let counts = Dictionary(followers.map { ($0.state, 1) }, uniquingKeysWith: +)
        return counts.isEmpty ? nil : counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns a number of the server; nil without TLS.
    func withTLS<Number>(_ number: (HTTPServerStatistics) -> Number) -> Number? {
        certificateExpiresAt == nil ? nil : number(server)
    }
}

/// The sources of metrics and readiness.
struct GatewayMetricFacts: Sendable {
    let databases: Databases
    let metrics: GatewayMetrics
    let limiter: RateLimiter
    let memory: MemoryBudget
    let output: OutputBudget
    /// See `GatewaySettings.maxReadyLag`.
    let maxReadyLag: Int64
    /// Returns the server's own counts at the time of the call.
    let serverReport: @Sendable () -> ServerReport
}

/// The metrics of namespaces: one series each for the oldest thousand loaded ones, one series for all others together.
/// A series for each of tens of thousands would take megabytes a scrape, and exceeds the number of series that
/// Prometheus handles well for one program.
struct NamespaceGauges {
    /// The numbers of one namespace, or of all others together.
    struct Facts: Equatable {
        let name: String
        /// Nil for the others, because their heads are unrelated.
        var head: Int?
        /// For the others, the largest lag.
        var lag: Int
        var rows: Int
        var waiting: Int
    }

    /// Maximum number of namespaces with series of their own.
    static let mostNamed = 1_000
    /// The name of the series of all others. It is not a valid namespace name.
    static let others = "*"

    let count: Int
    let facts: [Facts]

    /// - Parameter loaded: the numbers of each loaded namespace, the oldest first.
    init(_ loaded: [Facts]) {
        count = loaded.count
        var facts = Array(loaded.prefix(Self.mostNamed))
        if loaded.count > Self.mostNamed {
            var others = Facts(name: Self.others, head: nil, lag: 0, rows: 0, waiting: 0)
            for fact in loaded.dropFirst(Self.mostNamed) {
                others.lag = max(others.lag, fact.lag)
                others.rows += fact.rows
                others.waiting += fact.waiting
            }
            facts.append(others)
        }
        self.facts = facts
    }

    init(_ namespaces: [LiveNamespace]) {
        // The sorting keeps the selection stable, because series that come and go are useless.
        let ordered =
            namespaces.count > Self.mostNamed
            ? namespaces.sorted { ($0.key.database, $0.id) < ($1.key.database, $1.id) } : namespaces
        self.init(
            ordered.map { namespace in
                let snapshot = namespace.snapshot
                return Facts(
                    name: namespace.name, head: Int(snapshot.seq), lag: Int(namespace.lag),
                    rows: snapshot.root.rowCount, waiting: namespace.waitingWrites)
            })
    }
}
