import Engine
import Feeds
import Follower
import HTTPClient
import LogStore
import Mirrors
import Postgres
import Retention
import Runtime

/// The services that a gateway runs for one database: engine, mirrors, feeds, retention. They are independent of the services of other
/// databases.
final class DatabaseServices: Sendable {
    /// The objects that the services of all databases share.
    struct Shared: Sendable {
        let options: ServiceOptions
        let metrics = EngineMetrics()
        let budget: TreeBudget
        let webhookClient: HTTPClient
        let feedMemory: FeedMemory
        let followTools: FollowTools
        /// The clients of feeds' sinks.
        let producers = SinkProducers()

        init(_ options: ServiceOptions, _ webhookClient: HTTPClient) throws {
            self.options = options
            self.webhookClient = webhookClient
            followTools = try FollowTools(webhookClient, options.follow)
            feedMemory = FeedMemory(bytes: options.feeds.allWindowsBytes)
            budget = TreeBudget(bytes: options.engine.treeMemoryBytes, pages: try options.makePageFile())
        }
    }

    /// The database as recorded in the primary database; nil for the primary database itself.
    let record: DatabaseRecord?
    let engine: Engine
    let mirrors: MirrorService
    let feeds: FeedService
    let followers: FollowService
    let retentionMetrics = RetentionMetrics()
    private let retention: RetentionService

    /// Starts the services. The database may be unavailable at first.
    ///
    /// - Parameters:
    ///   - number: 0 for the primary database.
    ///   - record: the database as recorded in the primary database; nil for the primary database itself. Another database at its address
    ///     is rejected.
    ///   - placement: kept current from the primary database.
    ///   - accounts: the same for the service accounts.
    init(
        _ shared: Shared, _ url: PostgresURL, number: Int = 0, record: DatabaseRecord? = nil,
        placement: PlacementMap? = nil, accounts: ServiceAccountList? = nil
    ) throws {
        self.record = record
        let options = shared.options
        // The field shows which of several databases a line concerns.
        let logger = record.map { options.logger.adding([("database", $0.name)]) } ?? options.logger
        // Shared by all connections: once one reaches a new primary server, all connections to the old one are closed.
        let servers = ServerFence(logger, expecting: record)
        var settings = options.engine
        settings.database = number
        settings.databaseName = record?.name ?? ""
        // Other databases only create namespaces that were placed there.
        var feedSettings = options.feeds
        if number > 0 {
            settings.createsNamespaces = false
            feedSettings.createsNamespaces = false
        }
        let engine = try Engine(
            url: url, settings: settings, connectionSettings: options.connection, metrics: shared.metrics,
            logger: logger, servers: servers, budget: shared.budget, placement: placement,
            accounts: accounts)
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
        followers = FollowService(
            url: url, settings: options.connection, gateway: HostName.ofThisMachine, tools: shared.followTools,
            logger: logger, servers: servers
        ) { EngineFollowTarget(engine, $0) }
        retention = RetentionService(
            url: url, settings: options.retention, connectionSettings: options.connection, logger: logger,
            metrics: retentionMetrics, servers: servers)
    }

    /// Begins to stop: answers waiting consumers, and releases the feeds to other gateways.
    func drain() {
        retention.stop()
        followers.stop()
        feeds.stop()
    }

    /// Stops the mirrors after the last write. The next runner of a mirror reads missing changes from the log.
    func stopMirrors() { mirrors.stop() }
}
