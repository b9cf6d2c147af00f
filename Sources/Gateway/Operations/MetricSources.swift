import Engine
import HTTPServer
import Placement
import Runtime

/// What metrics are read from: counters that are shared with the gateway's threads, and values as they were when a page was
/// asked for.
struct MetricSources {
    /// Feeds with series of their own, in the order of their names. It bounds the size of a page.
    static let mostFeeds = 1_000

    /// Counts of the engines of all databases.
    var engine = EngineMetrics()
    var gateway = GatewayMetrics()
    /// Whether each database answers, the home first.
    var databases: [(name: String, isUp: Bool)] = []
    var namespaces = NamespaceGauges([NamespaceGauges.Facts]())
    /// Nil before any engine is there.
    var memory: MemoryFacts?
    /// How often each rate was exceeded.
    var rateLimited: [(limit: String, count: Int)] = []
    var server = HTTPServerStatistics()
    /// Seconds since 1970; nil without TLS.
    var certificateExpiresAt: Int64?
    /// The mirrors that this gateway runs.
    var mirrors: [MirrorFacts] = []
    /// The feeds that this gateway works, by name, at most `mostFeeds`.
    var feeds: [FeedFacts] = []
    var retention = RetentionFacts()
    /// The longest stall of each measured thread.
    var stalls: [(thread: String, seconds: Double)] = []
    var requestMemory = (taken: 0, refused: 0)
    var output = (queued: 0, refused: 0)

    init() {}

    init(_ facts: GatewayFacts) {
        let report = facts.serverReport()
        let all = facts.databases.all
        engine = facts.databases.home.engine.metrics
        gateway = facts.metrics
        databases = facts.databases.reachable
        namespaces = NamespaceGauges(all.flatMap(\.engine.liveNamespaces))
        memory = facts.databases.memory
        rateLimited = facts.limiter.counts.map { ($0.kind.rawValue, $0.count) }
        server = report.server
        certificateExpiresAt = report.certificateExpiresAt
        mirrors = report.mirrors.filter { $0.state != "elsewhere" }
        feeds = Self.shown(report.feeds)
        retention = report.retention
        stalls = (report.stretches + all.flatMap(\.engine.stretches)).map {
            ($0.name, Double($0.longest) / 1_000_000_000)
        }
        requestMemory = (facts.memory.taken, facts.memory.refused)
        output = (facts.output.taken, facts.output.refused)
    }

    /// The first `mostFeeds` feeds by name.
    static func shown(_ feeds: [FeedFacts]) -> [FeedFacts] {
        Array(feeds.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }.prefix(mostFeeds))
    }

    /// A number of each feed; nil without feeds.
    func ofFeeds<Number>(_ number: (FeedFacts) -> Number) -> [(String, Number)]? {
        feeds.isEmpty ? nil : feeds.map { ("\($0.namespace)/\($0.name)", number($0)) }
    }

    /// A number of each mirror; nil without mirrors.
    func ofMirrors<Number>(_ number: (MirrorFacts) -> Number) -> [(String, Number)]? {
        mirrors.isEmpty ? nil : mirrors.map { ("\($0.namespace)/\($0.name)", number($0)) }
    }

    /// A number of the server where it serves TLS.
    func withTLS<Number>(_ number: (HTTPServerStatistics) -> Number) -> Number? {
        certificateExpiresAt == nil ? nil : number(server)
    }
}
