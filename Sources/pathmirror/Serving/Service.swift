import Engine
import Feeds
import Gateway
import HTTPClient
import HTTPServer
import LogStore
import Mirrors
import Postgres
import Retention
import Runtime
import Synchronization
import TLS

/// A running gateway: engine, gateway and server, started in this order and stopped in the other.
final class Service {
    private let options: ServiceOptions
    private let engine: Engine
    private let gateway: Gateway
    private let server: HTTPServer
    private let mirrors: MirrorService
    private let feeds: FeedService
    private let retention: RetentionService
    private let feedClient: HTTPClient
    private let webhookClient: HTTPClient
    private let secretWatch: SecretWatch?
    private let certificateWatch: CertificateWatch?

    /// Starts everything; requests are served when it returns.
    init(_ options: ServiceOptions, url: PostgresURL) throws {
        self.options = options
        // One for all: whoever meets the new primary first makes the others let go of the old one.
        let servers = ServerFence(options.logger)
        engine = try Engine(
            url: url, settings: options.engine, connectionSettings: options.connection, metrics: EngineMetrics(),
            logger: options.logger, servers: servers)
        let mirrors = MirrorService(
            url: url, settings: options.mirrors, announcements: engine.announcements, logger: options.logger,
            servers: servers)
        self.mirrors = mirrors
        let feedClient = try HTTPClient(options.forwardingClient)
        self.feedClient = feedClient
        let webhookClient = try HTTPClient(options.webhookClient)
        self.webhookClient = webhookClient
        let feeds = FeedService(
            url: url, settings: options.feeds, connectionSettings: options.connection,
            announcements: engine.announcements, trees: RecentTrees(engine), logger: options.logger,
            sinks: SinkMaker(
                client: webhookClient, exceptions: options.webhookExceptions, servers: options.sinkServers,
                environment: options.environment),
            servers: servers)
        self.feeds = feeds
        let retention = RetentionService(
            url: url, settings: options.retention, connectionSettings: options.connection, logger: options.logger,
            servers: servers)
        self.retention = retention
        let statistics = MutexBox<HTTPServer?>(nil)
        let gateway = Gateway(
            engine: engine, settings: options.gateway, credentials: options.credentials,
            feeds: Gateway.FeedGate(feeds, client: feedClient), logger: options.logger
        ) {
            let server = statistics.withLock { $0 }
            return ServerReport(
                server: server?.statistics ?? HTTPServerStatistics(),
                certificateExpiresAt: server?.settings.tls?.expiresAt, mirrors: mirrors.reports.map(Service.facts),
                feeds: feeds.figures.map { FeedFacts($0, now: Clock.unixMilliseconds) },
                retention: RetentionFacts(
                    dropped: retention.metrics.droppedEntries.current, snapshots: retention.metrics.snapshots.current,
                    failures: retention.metrics.failures.current, heldBack: retention.metrics.heldBack.current),
                stretches: server?.loops.map(\.stretches) ?? [])
        } feedBasePath: { feed, namespace, completion in
            feeds.findBasePath(FeedName(namespace: namespace, name: feed), completion)
        }
        self.gateway = gateway
        // The first requests should not meet a gateway that is still connecting.
        engine.waitUntilConnected(milliseconds: 5_000)
        do {
            server = try HTTPServer(settings: options.server) { gateway.makeHandler($0) }
            let server = server
            statistics.withLock { $0 = server }
            try server.start()
            feeds.begin(port: server.boundAddresses.first?.port ?? 0)
        } catch {
            // Threads that still connect when the program ends bring it down.
            retention.stop()
            feeds.stop()
            feedClient.stop()
            webhookClient.stop()
            engine.stop(milliseconds: 0)
            mirrors.stop()
            options.authentication.client?.stop()
            throw error
        }
        certificateWatch = options.tls.map { CertificateWatch($0, options.logger) }
        let files = options.authentication.secretFiles
        secretWatch =
            !files.all.isEmpty
            ? SecretWatch(files, options.logger) { secrets in
                gateway.replaceSecrets(administrators: secrets.administrators, databases: secrets.databases)
            } : nil
    }

    /// Where it listens.
    var addresses: [ListenAddress] { server.boundAddresses }
    /// And where it does for TLS.
    var tlsAddresses: [ListenAddress] { server.boundTLSAddresses }

    /// Reads again what can change while it runs: the files of secrets, and the certificate.
    func reload() {
        secretWatch?.reload()
        certificateWatch?.reload()
    }

    /// Finishes what is under way and stops: streams are closed, so that clients reconnect elsewhere; requests that came
    /// are answered; writes that wait are committed.
    func stop() {
        let deadline = Clock.monotonicMilliseconds + options.shutdownMilliseconds
        options.logger.notice("shutting down")
        server.beginDrain()
        retention.stop()
        // Consumers that wait are answered, and others can have the feeds at once.
        feeds.stop()
        gateway.waitForSessions(milliseconds: Milliseconds(options.shutdownMilliseconds))
        engine.stop(milliseconds: Milliseconds(options.shutdownMilliseconds))
        server.stop(deadlineMilliseconds: max(100, deadline - Clock.monotonicMilliseconds))
        // After the last write, and with no hurry: what a mirror lacks its next runner gets from the log.
        mirrors.stop()
        gateway.stop()
        feedClient.stop()
        webhookClient.stop()
        secretWatch?.stop()
        certificateWatch?.stop()
        options.authentication.client?.stop()
        options.logger.notice("stopped")
    }

    private static func facts(_ mirror: MirrorReport) -> MirrorFacts {
        MirrorFacts(
            namespace: mirror.namespace, name: mirror.name, state: mirror.state.rawValue,
            lagEntries: mirror.lagEntries, lagMilliseconds: mirror.lagMilliseconds, message: mirror.message)
    }
}
