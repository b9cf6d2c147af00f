import Engine
import Feeds
import HTTPClient
import LogStore
import Mirrors
import Postgres
import Retention
import Runtime

/// What a gateway runs for one database: engine, mirrors, feeds, retention. Those of another database know nothing of it.
final class DatabaseServices: Sendable {
    /// What the services of all databases have in common.
    struct Shared: Sendable {
        let options: ServiceOptions
        let metrics = EngineMetrics()
        let budget: TreeBudget
        let webhookClient: HTTPClient
        let feedMemory: FeedMemory
        /// The clients of feeds' sinks.
        let producers = SinkProducers()

        init(_ options: ServiceOptions, _ webhookClient: HTTPClient) throws {
            self.options = options
            self.webhookClient = webhookClient
            feedMemory = FeedMemory(bytes: options.feeds.allWindowsBytes)
            budget = TreeBudget(bytes: options.engine.treeMemoryBytes, pages: try options.makePageFile())
        }
    }

    /// The database as the home had it; nil for the home.
    let record: DatabaseRecord?
    let engine: Engine
    let mirrors: MirrorService
    let feeds: FeedService
    let retentionMetrics = RetentionMetrics()
    private let retention: RetentionService

    /// Starts all of it; the database may be absent, and come later.
    ///
    /// - Parameters:
    ///   - number: 0 for the home.
    ///   - record: what the home says of the database; nil for the home. No other database at its address will do.
    ///   - placement: is kept as the home says.
    init(
        _ shared: Shared, _ url: PostgresURL, number: Int = 0, record: DatabaseRecord? = nil,
        placement: PlacementMap? = nil
    ) throws {
        self.record = record
        let options = shared.options
        // Which of several databases a line is about.
        let logger = record.map { options.logger.adding([("database", $0.name)]) } ?? options.logger
        // One for all: whoever meets the new primary first makes the others let go of the old one.
        let servers = ServerFence(logger, expecting: record)
        var settings = options.engine
        settings.database = number
        settings.databaseName = record?.name ?? ""
        // In another database only namespaces are made that were placed there.
        var feedSettings = options.feeds
        if number > 0 {
            settings.createsNamespaces = false
            feedSettings.createsNamespaces = false
        }
        let engine = try Engine(
            url: url, settings: settings, connectionSettings: options.connection, metrics: shared.metrics,
            logger: logger, servers: servers, budget: shared.budget, placement: placement)
        self.engine = engine
        mirrors = MirrorService(
            url: url, settings: options.mirrors, announcements: engine.announcements, logger: logger,
            servers: servers, makeRoom: { shared.budget.room(while: $0) })
        feeds = FeedService(
            url: url, settings: feedSettings, connectionSettings: options.connection,
            announcements: engine.announcements, trees: RecentTrees(engine, shared.budget), logger: logger,
            sinks: SinkMaker(
                client: shared.webhookClient, exceptions: options.webhookExceptions, servers: options.sinkServers,
                environment: options.environment, producers: shared.producers),
            memory: shared.feedMemory, servers: servers)
        retention = RetentionService(
            url: url, settings: options.retention, connectionSettings: options.connection, logger: logger,
            metrics: retentionMetrics, servers: servers)
    }

    /// Begins to stop: consumers that wait are answered, and others can have the feeds at once.
    func drain() {
        retention.stop()
        feeds.stop()
    }

    /// Ends the mirrors: after the last write, and with no hurry. What a mirror lacks its next runner gets from the log.
    func stopMirrors() { mirrors.stop() }
}
