import Engine
import HTTPServer
import Placement
import Runtime
import Tree

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

/// What metrics and readiness are made of.
struct GatewayFacts: Sendable {
    let databases: Databases
    let metrics: GatewayMetrics
    let limiter: RateLimiter
    let memory: MemoryBudget
    let output: OutputBudget
    /// See `GatewaySettings.maxReadyLag`.
    let maxReadyLag: Int64
    /// The server's own counts, as they are when it is called.
    let serverReport: @Sendable () -> ServerReport
}

/// What the metrics say of namespaces: of each for the oldest thousand that are loaded, of all others together. A series for
/// each of some ten thousands would be megabytes a scrape, and more series than a Prometheus wants of one program.
struct NamespaceGauges {
    /// What is told of one namespace, or of the others.
    struct Facts: Equatable {
        let name: String
        /// Nil for the others, whose heads have nothing to do with one another.
        var head: Int?
        /// Of the others: the largest.
        var lag: Int
        var rows: Int
        var waiting: Int
    }

    /// How many namespaces have series of their own.
    static let mostNamed = 1_000
    /// No namespace can be called so.
    static let others = "*"

    let count: Int
    let facts: [Facts]

    /// - Parameter loaded: what is told of each loaded namespace, the oldest first.
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
        // Always the same ones, as series that come and go are no use.
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
