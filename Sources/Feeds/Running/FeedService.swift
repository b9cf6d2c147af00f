public import LogStore
public import Postgres
public import Runtime
import Synchronization
public import Tree

/// The feeds of a gateway: works those that no other gateway works, hands out their messages, and knows where the others are
/// worked. Start it once; any thread may use it.
public final class FeedService: Sendable {
    private let core: FeedCore
    private let dispatcher: FeedDispatcher
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let administrator: FeedAdministrator
    private let announcements: AnnouncementSubscription
    private let threads: [Thread]
    private let dispatcherThread: Thread
    private let writerThread: Thread
    private let nextPull = Mutex<UInt64>(0)

    /// Starts the threads; the database may be absent, and come later.
    ///
    /// - Parameters:
    ///   - announcements: what is heard of the database.
    ///   - trees: knows recent trees.
    ///   - sinks: makes what feeds' definitions say that messages go to.
    ///   - memory: The memory for the messages of all feeds, shared with the feeds of other databases. Nil for one of this service alone.
    ///   - servers: which servers are gone on with; one for all that this program does with the database.
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
        let troubles = FeedTroubles()
        let dispatcher = FeedDispatcher(core, troubles)
        let writer = FeedWriter(core, lost: { troubles.lose($0) })
        let administrator = FeedAdministrator(core)
        let readers = FeedReaders(
            core, found: { dispatcher.found($0) }, keep: { administrator.keep($1, of: $0) },
            failed: { troubles.add($0, FeedTrouble($1)) })
        self.core = core
        self.announcements = announcements
        self.dispatcher = dispatcher
        self.writer = writer
        self.readers = readers
        self.administrator = administrator
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
            + FeedAdministrator.Lane.allCases.map { lane in
                Thread(name: lane.threadName) { administrator.run(lane) }
            } + (0..<settings.readers).map { index in Thread(name: "feed-reader-\(index)") { readers.run() } }
    }

    /// The gateway listens: from now on feeds are worked here.
    public func begin(at place: FeedEndpoint) { core.listens(at: place) }

    /// The same for a gateway that serves plain HTTP on this machine.
    public func begin(port: UInt16) {
        begin(at: FeedEndpoint(plain: FeedEndpoint.Place(host: "127.0.0.1", port: port)))
    }

    /// Authenticates what other gateways forward to this one.
    public var forwardingKey: Secret<[UInt8]> { core.forwardingKey }

    public var settings: FeedSettings { core.settings }

    /// How the feeds fare that this gateway works.
    public var reports: [FeedReport] { dispatcher.board.all }

    /// The figures of this gateway's feeds, those that only the database knows included.
    public var figures: [FeedFigures] { dispatcher.board.figures }

    /// How a feed fares at this moment; nil where it is not worked here, and then which gateway works it, as far as is known. Called back
    /// from another thread.
    public func report(
        _ feed: FeedName, as access: FeedAccess = .any,
        _ completion: @escaping @Sendable (FeedReport?, FeedRefusal?) -> Void
    ) {
        dispatcher.post(.report(feed, access, completion))
    }

    // MARK: For consumers

    /// Asks for messages; waits so long for the first. Called back once, from another thread.
    ///
    /// - Parameters:
    ///   - opening: The connection of the consumer that asks; nil for a request that stands for itself.
    ///   - isFirst: Whether the pull opens the connection. The messages that the former connection was handed up to `id` are done then, and all
    ///     others that the consumer holds go back.
    ///   - id: The last message that the consumer received on its former connection, or the event that brought it.
    /// - Returns: the pull, to be cancelled.
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

    /// Nobody waits for a pull any more. It may have been answered already.
    public func cancel(_ pull: FeedPull) { dispatcher.post(.cancel(pull.feed, pull: pull.id)) }

    /// Deliveries did not reach the connection that they were for: the messages go back, and that was no attempt.
    public func unsent(_ deliveries: [FeedDelivery], _ feed: FeedName) {
        dispatcher.post(.unsent(feed, deliveries.map { ($0.message.position, $0.number) }))
    }

    /// A connection ended: what it was handed and the consumer still holds goes back.
    ///
    /// - Parameter opening: nil for all that the consumer holds.
    public func release(
        _ feed: FeedName, as access: FeedAccess = .any, consumer: String, _ opening: FeedOpening?
    ) {
        dispatcher.post(.release(feed, consumer: consumer, opening, access))
    }

    /// Says what has become of messages. Called back once, from another thread, with a word for each: done, unknown or expired. What
    /// is done is durable by then.
    public func settle(
        _ feed: FeedName, as access: FeedAccess = .any, ids: [String], consumer: String?,
        _ settlement: FeedSettlement, _ completion: @escaping @Sendable (Result<[String], FeedRefusalError>) -> Void
    ) {
        dispatcher.post(
            .settle(
                feed, ids.map { FeedEventID($0, in: feed.namespace)?.position }, consumer: consumer, settlement, access,
                explaining(feed, completion)))
    }

    /// Has the database say what has become of a feed that is not known here: it may have left with its namespace, or have come just now.
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

    // MARK: For administrators

    /// A feed was put elsewhere, or has another definition: nothing is handed out any more by what was known before.
    ///
    /// - Parameter change: as administration told it.
    public func moved(_ feed: FeedName, _ change: FeedAdministration.Change) {
        dispatcher.post(.moved(feed, feed: change.feed, generation: change.generation))
    }

    /// What an administrator's request does.
    public enum AdministrationKind: Sendable {
        /// Reads little: it comes before what else waits of the feed.
        case glance
        case read
        /// Changes the feed. Changes of one feed are done in their order.
        case change
    }

    /// Does something with the database, on a thread for that, namespaces and feeds in turn. `body` may be begun twice: what it has done by then is
    /// nothing that others see. Its result is handed over once; where the request waited for too long, that is `FeedBusyError`.
    ///
    /// - Parameter feed: Which feed it is about; with an empty name, which namespace.
    /// - Returns: False, with nothing done, where too much waits already.
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

    /// Finds the place below which all records of a feed are; nil where there is no such feed, or the caller may not consume it. Fails where the database is away or
    /// too much waits for it. Calls back from another thread.
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

    // MARK: The end

    /// Ends all work; what was done is written down.
    public func stop() {
        // Whoever has not heard of the database for a while would wait for it in vain; others have the feeds soon anyway.
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

    /// Lets others have the feeds at once.
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
