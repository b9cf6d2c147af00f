import Engine
import Feeds
import Gateway
import HTTPClient
import HTTPServer
import LogStore
import Mirrors
import Placement
import Postgres
import Retention
import Runtime
import Synchronization
import TLS

/// A running gateway: what each database needs, gateway and server, started in this order and stopped in the other.
final class Service {
    private let options: ServiceOptions
    private let home: DatabaseServices
    private let keeper: DatabaseKeeper
    private let keeperThread: Thread
    private let gateway: Gateway
    private let server: HTTPServer
    private let feedClients: FeedClients
    private let webhookClient: HTTPClient
    private let producers: SinkProducers
    private let secretWatch: SecretWatch?
    private let certificateWatch: CertificateWatch?

    /// Starts everything; requests are served when it returns.
    ///
    /// - Parameter placement: which namespaces live in other databases, as the home at `url` has said.
    init(_ options: ServiceOptions, url: PostgresURL, placement: PlacementMap) throws {
        self.options = options
        let feedClients = try FeedClients(prompt: options.promptForwarding, waiting: options.waitingForwarding)
        self.feedClients = feedClients
        let webhookClient = try HTTPClient(options.webhookClient)
        self.webhookClient = webhookClient
        let shared = try DatabaseServices.Shared(options, webhookClient)
        let producers = shared.producers
        self.producers = producers
        let home = try DatabaseServices(shared, url, placement: placement)
        self.home = home
        let databases = Databases(home: home.engine, feeds: home.feeds, map: placement)
        let keeper = DatabaseKeeper(shared, home: url, databases)
        self.keeper = keeper
        let statistics = MutexBox<HTTPServer?>(nil)
        let gateway = Gateway(
            databases: databases, settings: options.gateway, credentials: options.credentials,
            feedClients: feedClients, logger: options.logger
        ) {
            Self.report(statistics.withLock { $0 }, [home] + keeper.others)
        } feedBasePath: { feed, access, completion in
            guard let feeds = databases.member(of: feed.namespace)?.feeds else {
                return completion(.failure(EngineError.unavailable("it is not connected yet")))
            }
            feeds.findBasePath(feed, as: access, completion)
        }
        self.gateway = gateway
        // The first requests should not meet a gateway that is still connecting.
        home.engine.waitUntilConnected(milliseconds: 5_000)
        placement.onNews { keeper.found($0) }
        keeper.found(placement.databases)
        keeperThread = Thread(name: "databases") { keeper.run() }
        // One that can't be reached keeps the others waiting for a moment, and no longer.
        keeper.waitUntilTried(milliseconds: 5_000)
        do {
            server = try HTTPServer(settings: options.server) { gateway.makeHandler($0) }
            let server = server
            statistics.withLock { $0 = server }
            try server.start()
            let place = Self.endpoint(server)
            home.feeds.begin(at: place)
            keeper.begin(at: place)
        } catch {
            // Threads that still connect when the program ends bring it down.
            keeper.stop()
            keeperThread.join()
            SideBySide.run([home] + keeper.others) { services in
                services.drain()
                services.engine.stop(milliseconds: 0)
                services.stopMirrors()
            }
            feedClients.stop()
            webhookClient.stop()
            producers.stop()
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

    private static func endpoint(_ server: HTTPServer) -> FeedEndpoint {
        func place(_ address: ListenAddress?) -> FeedEndpoint.Place? {
            address.map { FeedEndpoint.Place(host: $0.host, port: $0.port) }
        }
        return FeedEndpoint(
            plain: place(server.boundAddresses.first), secure: place(server.boundTLSAddresses.first),
            pin: { [tls = server.settings.tls] in tls?.publicKeyDigest })
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
        keeper.stop()
        // No others come any more. Databases that are silent keep nobody waiting for longer than one of them does.
        let all = [home] + keeper.others
        SideBySide.run(all) { $0.drain() }
        keeperThread.join()
        gateway.waitForSessions(milliseconds: Milliseconds(options.shutdownMilliseconds))
        // The home has all of the time, the others have what is left of it.
        let whole = options.shutdownMilliseconds
        let left = max(100, deadline - Clock.monotonicMilliseconds)
        let home = home
        SideBySide.run(all) { services in services.engine.stop(milliseconds: services === home ? whole : left) }
        server.stop(deadlineMilliseconds: max(100, deadline - Clock.monotonicMilliseconds))
        SideBySide.run(all) { $0.stopMirrors() }
        gateway.stop()
        feedClients.stop()
        webhookClient.stop()
        producers.stop()
        secretWatch?.stop()
        certificateWatch?.stop()
        options.authentication.client?.stop()
        options.logger.notice("stopped")
    }

    private static func report(
        _ server: HTTPServer?, _ all: [DatabaseServices]
    ) -> ServerReport {
        let retention = all.map(\.retentionMetrics)
        return ServerReport(
            server: server?.statistics ?? HTTPServerStatistics(),
            certificateExpiresAt: server?.settings.tls?.expiresAt,
            mirrors: all.flatMap { $0.mirrors.reports.map(facts) },
            feeds: all.flatMap { $0.feeds.figures.map { FeedFacts($0) } },
            retention: RetentionFacts(
                dropped: retention.reduce(0) { $0 + $1.droppedEntries.current },
                failures: retention.reduce(0) { $0 + $1.failures.current },
                heldBack: retention.reduce(0) { $0 + $1.heldBack.current }),
            stretches: server?.loops.map(\.stretches) ?? [])
    }

    private static func facts(_ mirror: MirrorReport) -> MirrorFacts {
        MirrorFacts(
            namespace: mirror.namespace, name: mirror.name, state: mirror.state.rawValue,
            lagEntries: mirror.lagEntries, lagMilliseconds: mirror.lagMilliseconds, message: mirror.message)
    }
}
