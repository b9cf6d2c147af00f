public import LogStore
public import Postgres
public import Runtime
import Synchronization
public import Tree

/// The feeds of a gateway: claims and runs feeds without an owner, delivers their messages, and knows which gateways run the
/// others. Create one instance; usable on any thread.
public final class FeedService: Sendable {
    private let core: FeedCore
    private let dispatcher: FeedDispatcher
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let administrator: FeedAdministrator
    private let sinks: SinkMaker
    private let announcements: AnnouncementSubscription
    private let threads: [Thread]
    private let dispatcherThread: Thread
    private let writerThread: Thread
    private let nextPull = Mutex<UInt64>(0)

    /// Starts the threads. The database need not be reachable yet.
    ///
    /// - Parameters:
    ///   - announcements: The announcements of the database.
    ///   - trees: The source of recent trees.
    ///   - sinks: Creates the sinks that feed definitions name.
    ///   - memory: The memory for the messages of all feeds, shared with the feeds of other databases. Nil for a memory
    ///     of this service alone.
    ///   - servers: Decides which database servers may be used. One instance serves all of the program's connections to the database.
    public init(
        url: PostgresURL, settings: FeedSettings = FeedSettings(),
        connectionSettings: LogConnection.Settings = LogConnection.Settings(), announcements: Announcements,
        trees: any TreeSource, logger: Logger, sinks: SinkMaker, memory: FeedMemory? = nil,
        servers: ServerFence = ServerFence()
    ) {
        let core = FeedCore(
            url: url, settings: settings, connectionSettings: connectionSettings, trees: trees,
            memory: memory ?? FeedMemory(bytes: settings.allWindowsBytes), logger: logger, servers: servers)
        let announcements = announcements.subscribe(to: .feeds)
        let troubles = FeedFailures()
        let dispatcher = FeedDispatcher(core, troubles)
        let writer = FeedWriter(core, lost: { troubles.lose($0) })
        let administrator = FeedAdministrator(core)
        let readers = FeedReaders(
            core, found: { dispatcher.found($0) }, keep: { administrator.keep($1, of: $0) },
            failed: { troubles.add($0, FeedFailureReason($1)) })
        self.core = core
        self.announcements = announcements
        self.dispatcher = dispatcher
        self.writer = writer
        self.readers = readers
        self.administrator = administrator
        self.sinks = sinks
        dispatcherThread = Thread(name: "feeds") {
            dispatcher.run(readers, writer) { administrator.expire(at: $0) }
        }
        writerThread = Thread(name: "feed-writer") { writer.run(dispatcher) }
        threads =
            [
                Thread(name: "feed-watch") {
                    FeedSupervisor(
                        core, dispatcher, readers, writer, troubles, administrator, sinks, announcements
                    ).run()
                }
            ]
            + FeedAdministrator.Kind.allCases.map { kind in
                Thread(name: kind.threadName) { administrator.run(kind) }
            } + (0..<settings.readers).map { index in Thread(name: "feed-reader-\(index)") { readers.run() } }
    }

    /// Records that the gateway listens. From now on it claims feeds.
    public func begin(at endpoint: FeedEndpoint) { core.listens(at: endpoint) }

    /// Records that the gateway serves plain HTTP on a port of this machine only, and starts claiming feeds.
    public func begin(port: UInt16) {
        begin(at: FeedEndpoint(plain: FeedEndpoint.Address(host: "127.0.0.1", port: port)))
    }

    /// The key that authenticates requests forwarded by other gateways.
    public var forwardingKey: Secret<[UInt8]> { core.forwardingKey }

    public var settings: FeedSettings { core.settings }

    /// Returns the secrets that this gateway lacks to deliver the messages of a feed, as sentences. Looks files up.
    public func warnings(_ definition: FeedDefinition, in namespace: String) -> [String] {
        sinks.warnings(definition, in: namespace)
    }

    /// The state of the feeds that run on this gateway.
    public var reports: [FeedReport] { dispatcher.board.all }

    /// The figures of this gateway's feeds, including those that only the database knows.
    public var figures: [FeedFigures] { dispatcher.board.figures }

    /// Reports the current state of a feed, or nil if the feed does not run here, together with the gateway that runs it if known.
    /// The completion is called on another thread.
    public func report(
        _ feed: FeedName, as access: FeedAccess = .any,
        _ completion: @escaping @Sendable (FeedReport?, FeedRefusal?) -> Void
    ) {
        dispatcher.post(.report(feed, access, completion))
    }

    // MARK: Consumers

    /// Requests messages and waits up to the given time for the first. The completion is called once, on another thread.
    ///
    /// - Parameters:
    ///   - opening: The consumer's connection, or nil if the request belongs to no opening.
    ///   - isFirst: Whether the pull opens the connection. The messages that the previous connection received up to `id` are then
    ///     done, and all other messages that the consumer holds go back.
    ///   - id: The last message that the consumer received on its previous connection, or the id of its event.
    /// - Returns: The pull, for `cancel`.
    @discardableResult
    public func pull(
        _ feed: FeedName, as access: FeedAccess = .any, consumer: String, opening: FeedOpening? = nil,
        isFirst: Bool = false, after id: String? = nil, most: Int, mostHeld: Int? = nil, waitMilliseconds: Milliseconds,
        _ completion: @escaping @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void
    ) -> FeedPull {
        let number = nextPull.withLock { number -> UInt64 in
            number += 1
            return number
        }
        var pull = FeedPull(
            id: number, feed: feed, consumer: consumer, access: access, opening: opening,
            most: max(0, min(most, core.settings.maxPull)), mostHeld: mostHeld,
            deadline: Clock.monotonicMilliseconds + waitMilliseconds)
        if isFirst { pull.opens = FeedPull.Opens(after: id.flatMap { FeedEventID($0, in: feed.namespace) }) }
        dispatcher.post(.pull(pull, explaining(feed, completion)))
        return pull
    }

    /// Cancels a pull. It may already have been answered.
    public func cancel(_ pull: FeedPull) { dispatcher.post(.cancel(pull.feed, pull: pull.id)) }

    /// Puts back messages whose deliveries did not reach their connection. The deliveries do not count as attempts.
    public func unsent(_ deliveries: [FeedDelivery], _ feed: FeedName) {
        dispatcher.post(.unsent(feed, deliveries.map { ($0.message.position, $0.number) }))
    }

    /// Ends a connection. The messages that it received and the consumer still holds go back.
    ///
    /// - Parameter opening: The connection, or nil for all messages that the consumer holds.
    public func release(
        _ feed: FeedName, as access: FeedAccess = .any, consumer: String, _ opening: FeedOpening?
    ) {
        dispatcher.post(.release(feed, consumer: consumer, opening, access))
    }

    /// Settles messages. The completion is called once, on another thread, with a result for each id: done, unknown or expired.
    /// Messages that are done are durably done by then.
    public func settle(
        _ feed: FeedName, as access: FeedAccess = .any, ids: [String], consumer: String?,
        _ settlement: FeedSettlement, _ completion: @escaping @Sendable (Result<[String], FeedRefusalError>) -> Void
    ) {
        dispatcher.post(
            .settle(
                feed, ids.map { FeedEventID($0, in: feed.namespace)?.position }, consumer: consumer, settlement, access,
                explaining(feed, completion)))
    }

    /// Asks the database about a feed that this gateway does not know: the feed may have moved with its namespace, or may be new.
    private func explaining<Value: Sendable>(
        _ feed: FeedName, _ completion: @escaping @Sendable (Result<Value, FeedRefusalError>) -> Void
    ) -> @Sendable (Result<Value, FeedRefusalError>) -> Void {
        { [administrator] result in
            guard case .failure(let error) = result, error.refusal == .unknownFeed else { return completion(result) }
            let isQueued = administrator.add(.reads, of: feed, isUrgent: true) { administration in
                completion(.failure(FeedRefusalError(Self.refusal(of: feed, administration))))
                return .done
            }
            if !isQueued { completion(.failure(FeedRefusalError(.noOwner))) }
        }
    }

    private static func refusal(
        of feed: FeedName, _ administration: Result<FeedAdministration, any Error>
    ) -> FeedRefusal {
        do {
            _ = try administration.get().feed(feed)
            return .noOwner
        } catch FeedError.unknownFeed {
            return .unknownFeed
        } catch FeedError.moving {
            return .moving
        } catch {
            return .noOwner
        }
    }

    // MARK: Administrators

    /// Ends the run of a feed that was moved or has another definition. No message is delivered by the older state after this.
    ///
    /// - Parameter change: The change that the administration returned.
    public func moved(_ feed: FeedName, _ change: FeedAdministration.Change) {
        dispatcher.post(.moved(feed, feed: change.feed, generation: change.generation))
    }

    /// The kind of an administrator's request.
    public enum AdministrationKind: Sendable {
        /// Reads little. Overtakes the other waiting requests of the feed.
        case glance
        case read
        /// Changes the feed. The changes of one feed run in order.
        case change
    }

    /// Runs a request on a thread that uses the database; namespaces and feeds take turns. `body` may be started twice: effects of the
    /// first start are not visible to others. The completion is called once; if the request waited for too long, with `FeedBusyError`.
    ///
    /// - Parameter feed: The feed of the request. If its name is empty, the request concerns the namespace.
    /// - Returns: False if too many requests wait; nothing is then done.
    public func administer<Value: Sendable>(
        _ kind: AdministrationKind, of feed: FeedName,
        _ body: @escaping @Sendable (FeedAdministration) throws -> Value,
        then completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) -> Bool {
        administrator.add(kind == .change ? .changes : .reads, of: feed, isUrgent: kind == .glance) { administration in
            do {
                let value = try body(try administration.get())
                completion(.success(value))
            } catch is FeedAdministration.SnapshotNeeded {
                return .needsTree
            } catch {
                completion(.failure(error))
            }
            return .done
        }
    }

    /// Finds the deepest path that contains all records of a feed. The result is nil if the feed does not exist or the caller may
    /// not consume it. Fails if the database is unavailable or too many requests wait.
    /// The completion is called on another thread.
    public func findBasePath(
        _ feed: FeedName, as access: FeedAccess, _ completion: @escaping @Sendable (Result<Path?, any Error>) -> Void
    ) {
        let find = { @Sendable (administration: FeedAdministration) throws -> Path? in
            guard let record = try administration.find(feed),
                access.admits(uid: record.uid, createdAt: record.createdAt)
            else { return nil }
            return try? FeedDefinition.read(stored: record.definition, name: record.name).pattern.base
        }
        let isQueued = administer(.glance, of: feed, find, then: completion)
        if !isQueued { completion(.failure(FeedRefusalError(.tooManyWaiting))) }
    }

    // MARK: Stopping

    /// Stops all threads after recording the progress of the feeds.
    public func stop() {
        // Without a fresh lease the database is probably unreachable, and waiting for it would be useless. Other gateways take
        // the feeds over soon anyway.
        let answers = core.lease.isFresh(at: Clock.monotonicMilliseconds)
        readers.stop()
        administrator.stop()
        dispatcher.stop()
        dispatcherThread.join()
        writer.stop()
        core.stop()
        announcements.end()
        writerThread.join()
        for thread in threads { thread.join() }
        core.close()
        if answers { leave() }
    }

    /// Releases the feeds, so that other gateways can claim them at once.
    private func leave() {
        var settings = LogConnection.Settings()
        settings.connection.connectTimeoutMilliseconds = 1_000
        settings.connection.statementTimeoutMilliseconds = 2_000
        guard let worker = core.lease.worker, let connection = try? LogConnection(core.url, settings: settings) else {
            return
        }
        try? connection.endFeedWorker(worker)
        connection.close()
    }
}
