import Engine
import Feeds
import Follower
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

/// A running gateway: the services of each database, the gateway and the server. They start in this order and stop in reverse.
///
///     main thread: init; then signals lead to reload() and stop()
///     |
///     |- HTTPServer          http-0 .. http-N: event loops, connections and TLS
///     |    |  each loop has one handler: gateway.makeHandler(loop)
///     |- Gateway             worker-0 .. worker-N: large bodies and values, rules
///     |    |  asks for the engine or feeds of a namespace
///     |- Databases           no thread: which database has which namespace
///     |    |
///     |- DatabaseServices    one for the primary database, one for each other database
///     |    |- Engine            committer-N, loader-N, tail, memory, log-reader, log-stream-N, sessions, watch, large-writes
///     |    |- MirrorService     mirrors, and one thread `mirror` for each group of mirrors
///     |    |- FeedService       feeds, feed-writer, feed-watch, feed-reader-N, feed-admin, feed-changes, feed-trees, sink-closer
///     |    `- RetentionService  retention
///     |- DatabaseKeeper      databases: starts DatabaseServices for the databases that the primary database names
///     |- HTTP clients        http-client: issuers' keys; webhooks; feed requests to other gateways (two clients)
///     |- SinkProducers       one for all databases: sink-opener, sink-closer, nats-client, kafka-client
///     `- SecretWatch, CertificateWatch    secrets, certificate: read changed files again
///
/// The tail of the primary database keeps `ServiceAccountList` and `PlacementMap` current, and passes the databases that the map names
/// to `DatabaseKeeper.found`; the thread `databases` starts the new ones. `DatabaseServices.Shared` holds the budgets for
/// trees and feeds, the page file and the clients that all databases share. Engines notify the event
/// loops; a loop never waits for a database.
///
/// `stop()` drains the server, stops feeds and retention, waits for the end of realtime sessions, and then stops engines,
/// server, mirrors, gateway and clients in this order: engines commit the writes in their queues before the server
/// stops.
final class Service {
    private let options: ServiceOptions
    private let primary: DatabaseServices
    private let keeper: DatabaseKeeper
    private let keeperThread: Thread
    private let gateway: Gateway
    private let server: HTTPServer
    private let feedClients: FeedClients
    private let webhookClient: HTTPClient
    private let producers: SinkProducers
    private let secretWatch: SecretWatch?
    private let certificateWatch: CertificateWatch?

    /// Starts everything. Requests are served once this returns.
    ///
    /// - Parameter placement: the namespaces in other databases, as recorded in the primary database at `url`.
    init(_ options: ServiceOptions, url: PostgresURL, placement: PlacementMap) throws {
        self.options = options
        let feedClients = try FeedClients(prompt: options.promptForwarding, waiting: options.waitingForwarding)
        self.feedClients = feedClients
        let webhookClient = try HTTPClient(options.webhookClient)
        self.webhookClient = webhookClient
        let shared = try DatabaseServices.Shared(options, webhookClient)
        let producers = shared.producers
        self.producers = producers
        let accounts = ServiceAccountList()
        let primary = try DatabaseServices(shared, url, placement: placement, accounts: accounts)
        self.primary = primary
        let databases = Databases(primary: primary.engine, feeds: primary.feeds, map: placement)
        let keeper = DatabaseKeeper(shared, primary: url, databases)
        self.keeper = keeper
        let statistics = MutexBox<HTTPServer?>(nil)
        let gateway = Gateway(
            databases: databases, settings: options.gateway, credentials: options.credentials,
            accounts: accounts, feedClients: feedClients, logger: options.logger
        ) {
            Self.report(statistics.withLock { $0 }, [primary] + keeper.others)
        } feedBasePath: { feed, access, completion in
            guard let feeds = databases.member(of: feed.namespace)?.feeds else {
                return completion(.failure(EngineError.unavailable("not connected yet")))
            }
            feeds.findBasePath(feed, as: access, completion)
        }
        self.gateway = gateway
        // The first requests should not meet a gateway that is still connecting.
        primary.engine.waitUntilConnected(milliseconds: 5_000)
        placement.onNews { keeper.found($0) }
        keeper.found(placement.databases)
        keeperThread = Thread(name: "databases") { keeper.run() }
        // A database that can't be reached delays the start of the gateway only briefly.
        keeper.waitUntilTried(milliseconds: 5_000)
        do {
            server = try HTTPServer(settings: options.server) { gateway.makeHandler($0) }
            let server = server
            statistics.withLock { $0 = server }
            try server.start()
            let endpoint = Self.endpoint(server)
            primary.feeds.begin(at: endpoint)
            keeper.begin(at: endpoint)
        } catch {
            // A thread that is still connecting would crash the exiting program.
            keeper.stop()
            keeperThread.join()
            Concurrently.run([primary] + keeper.others) { services in
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
        func feedAddress(_ address: ListenAddress?) -> FeedEndpoint.Address? {
            address.map { FeedEndpoint.Address(host: $0.host, port: $0.port) }
        }
        return FeedEndpoint(
            plain: feedAddress(server.boundAddresses.first), secure: feedAddress(server.boundTLSAddresses.first),
            pin: { [tls = server.settings.tls] in tls?.publicKeyDigest })
    }

    /// The addresses of the plain HTTP listeners.
    var addresses: [ListenAddress] { server.boundAddresses }
    /// The addresses of the TLS listeners.
    var tlsAddresses: [ListenAddress] { server.boundTLSAddresses }

    /// Reloads the files of secrets and the certificate.
    func reload() {
        secretWatch?.reload()
        certificateWatch?.reload()
    }

    /// Completes running requests and stops. Streams are closed, so that clients reconnect elsewhere. Requests that arrived are answered,
    /// and waiting writes are committed.
    func stop() {
        let deadline = Clock.monotonicMilliseconds + options.shutdownMilliseconds
        options.logger.notice("shutting down")
        server.beginDrain()
        keeper.stop()
        // No database is added any more. They stop at the same time, so that unavailable ones delay the end only once.
        let all = [primary] + keeper.others
        Concurrently.run(all) { $0.drain() }
        keeperThread.join()
        gateway.waitForSessions(milliseconds: Milliseconds(options.shutdownMilliseconds))
        // The primary database has the whole time, the others have the remainder.
        let whole = options.shutdownMilliseconds
        let left = max(100, deadline - Clock.monotonicMilliseconds)
        let primary = primary
        Concurrently.run(all) { services in services.engine.stop(milliseconds: services === primary ? whole : left) }
        server.stop(deadlineMilliseconds: max(100, deadline - Clock.monotonicMilliseconds))
        Concurrently.run(all) { $0.stopMirrors() }
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
            followers: all.flatMap { $0.followers.reports.map { FollowerFacts($0, at: Clock.unixMilliseconds) } },
            retention: RetentionFacts(
                dropped: retention.reduce(0) { $0 + $1.droppedEntries.current },
                failures: retention.reduce(0) { $0 + $1.failures.current },
                heldBack: retention.reduce(0) { $0 + $1.heldBack.current }),
            stallMeters: server?.loops.map(\.stallMeters) ?? [])
    }

    private static func facts(_ mirror: MirrorReport) -> MirrorFacts {
        MirrorFacts(
            namespace: mirror.namespace, name: mirror.name, state: mirror.state.rawValue,
            lagEntries: mirror.lagEntries, lagMilliseconds: mirror.lagMilliseconds, message: mirror.message)
    }
}

extension FeedFacts {
    /// Converts the figures of a feed into the units of the metrics.
    init(_ figures: FeedFigures) {
        let status = figures.status
        let report = figures.report
        self.init(
            namespace: figures.feed.namespace, name: figures.feed.name, isUp: report != nil,
            lagMilliseconds: Milliseconds(status.lagSeconds * 1_000), heldMessages: report.map { Int64($0.held) } ?? 0,
            acknowledged: status.acknowledged, redelivered: status.redelivered, deadLetters: status.deadLetters,
            holdsBackMilliseconds: Milliseconds(status.holdsBackSeconds * 1_000))
    }
}

extension FollowerFacts {
    /// Converts the report of a follower into the units of the metrics.
    ///
    /// - Parameter now: milliseconds since 1970.
    init(_ report: FollowReport, at now: Int64) {
        let status = report.status
        self.init(
            namespace: report.namespace, state: status.state, hasProblem: status.message != nil,
            lagMilliseconds: status.lagMilliseconds,
            receivedBytes: status.received, entries: status.entries, resyncs: status.resyncs,
            dailyLimitRatio: report.maxBytesPerDay.map { Double(status.received(onDayOf: now)) / Double(max(1, $0)) })
    }
}

extension FollowStatus {
    /// The bytes that were received on the day (UTC) of a time in milliseconds since 1970, if it is the last day with bytes.
    func received(onDayOf now: Int64) -> Int64 {
        receivedOn == String(Timestamp.iso8601(unixMilliseconds: now).prefix(10)) ? receivedToday : 0
    }
}

/// Processes several items at the same time and waits for all: the total time is that of the slowest one.
enum Concurrently {
    /// Returns once all are done. The first item is processed on the caller's thread, each other one on a thread of its own.
    static func run<Item: Sendable>(_ items: [Item], _ work: @escaping @Sendable (Item) -> Void) {
        guard let first = items.first else { return }
        let others = items.dropFirst().map { item in
            (item: item, thread: Thread(name: "side-by-side", isVital: false) { work(item) })
        }
        work(first)
        for other in others {
            // Without a thread of its own, the item is processed here.
            if other.thread.isStarted { other.thread.join() } else { work(other.item) }
        }
    }
}
