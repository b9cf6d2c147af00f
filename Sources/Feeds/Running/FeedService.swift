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
    private let keeper: FeedAdministrator
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
    ///   - servers: which servers are gone on with; one for all that this program does with the database.
    public init(
        url: PostgresURL, settings: FeedSettings = FeedSettings(),
        connectionSettings: LogConnection.Settings = LogConnection.Settings(), announcements: Announcements,
        trees: any TreeSource, logger: Logger, sinks: SinkMaker, servers: ServerFence = ServerFence()
    ) {
        let core = FeedCore(
            url: url, settings: settings, connectionSettings: connectionSettings, trees: trees, logger: logger,
            servers: servers)
        let announcements = announcements.subscribe(to: .feeds)
        let dispatcher = FeedDispatcher(core)
        let troubles = FeedTroubles()
        let writer = FeedWriter(core, lost: { troubles.lose($0) })
        let keeper = FeedAdministrator(core)
        let readers = FeedReaders(
            core, found: { dispatcher.found($0) }, keep: { keeper.keep($1, of: $0) },
            failed: { troubles.add($0, $1) })
        let administrator = FeedAdministrator(core)
        self.core = core
        self.announcements = announcements
        self.dispatcher = dispatcher
        self.writer = writer
        self.readers = readers
        self.administrator = administrator
        self.keeper = keeper
        dispatcherThread = Thread(name: "feeds") {
            dispatcher.run(readers, writer)
        }
        writerThread = Thread(name: "feed-writer") { writer.run(dispatcher) }
        threads =
            [
                Thread(name: "feed-watch") {
                    FeedSupervisor(
                        core, dispatcher, readers, writer, troubles, administrator, sinks, announcements
                    ).run()
                },
                Thread(name: "feed-admin") { administrator.run() },
                Thread(name: "feed-trees") { keeper.run() },
            ] + (0..<settings.readers).map { index in Thread(name: "feed-reader-\(index)") { readers.run() } }
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
    /// - Returns: the pull, to be cancelled.
    @discardableResult
    public func pull(
        _ feed: FeedName, as access: FeedAccess = .any, consumer: String, most: Int, mostHeld: Int? = nil,
        waitMilliseconds: Milliseconds,
        _ completion: @escaping @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void
    ) -> FeedPull {
        let id = nextPull.withLock { id -> UInt64 in
            id += 1
            return id
        }
        let pull = FeedPull(
            id: id, feed: feed, consumer: consumer, access: access, most: max(0, min(most, core.settings.maxPull)),
            mostHeld: mostHeld,
            deadline: Clock.monotonicMilliseconds + waitMilliseconds)
        dispatcher.post(.pull(pull, explaining(feed, completion)))
        return pull
    }

    /// Nobody waits for a pull any more. It may have been answered already.
    public func cancel(_ pull: FeedPull) { dispatcher.post(.cancel(pull.feed, pull: pull.id)) }

    /// Messages did not reach the consumer that they were handed out for: they go back and do not count as attempts.
    public func unsent(_ deliveries: [FeedDelivery], _ feed: FeedName, consumer: String) {
        dispatcher.post(.unsent(feed, consumer: consumer, deliveries.map(\.message.position)))
    }

    /// A consumer begins a new stream: what it was given up to a message is done, the rest goes back.
    public func resume(_ feed: FeedName, as access: FeedAccess = .any, consumer: String, through id: String?) {
        let position = id.flatMap { FeedPosition(id: $0, in: feed.namespace) }
        dispatcher.post(.resume(feed, consumer: consumer, through: position, access))
    }

    /// Says what has become of messages. Called back once, from another thread, with a word for each: done, unknown or expired. What
    /// is done is durable by then.
    public func settle(
        _ feed: FeedName, as access: FeedAccess = .any, ids: [String], consumer: String?,
        _ settlement: FeedSettlement, _ completion: @escaping @Sendable (Result<[String], FeedRefusalError>) -> Void
    ) {
        dispatcher.post(
            .settle(
                feed, ids.map { FeedPosition(id: $0, in: feed.namespace) }, consumer: consumer, settlement, access,
                explaining(feed, completion)))
    }

    /// Has the database say what has become of a feed that is not known here: it may have left with its namespace, or have come just now.
    private func explaining<Value: Sendable>(
        _ feed: FeedName, _ completion: @escaping @Sendable (Result<Value, FeedRefusalError>) -> Void
    ) -> @Sendable (Result<Value, FeedRefusalError>) -> Void {
        { [administrator] result in
            guard case .failure(let error) = result, error.refusal == .unknownFeed else { return completion(result) }
            let isQueued = administrator.add { administration in
                completion(.failure(FeedRefusalError(Self.refusal(of: feed, administration))))
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

    /// Does something with the database, on a thread of its own. False where too much waits for that already.
    public func administer(_ body: @escaping @Sendable (Result<FeedAdministration, any Error>) -> Void) -> Bool {
        administrator.add(body)
    }

    /// Finds the place below which all records of a feed are; nil where there is no such feed, or the caller may not consume it. Fails where the database is away or
    /// too much waits for it. Calls back from another thread.
    public func findBasePath(
        _ feed: FeedName, as access: FeedAccess, _ completion: @escaping @Sendable (Result<Path?, any Error>) -> Void
    ) {
        let isQueued = administer { result in
            completion(
                Result {
                    guard let record = try result.get().find(feed),
                        access.admits(uid: record.uid, createdAt: record.createdAt)
                    else { return nil }
                    return try? FeedDefinition.read(record.definition, name: record.name).pattern.base
                })
        }
        if !isQueued { completion(.failure(FeedRefusalError(.tooManyWaiting))) }
    }

    // MARK: The end

    /// Ends all work; what was done is written down.
    public func stop() {
        // Whoever has not heard of the database for a while would wait for it in vain; others have the feeds soon anyway.
        let answers = core.lease.isFresh(at: Clock.monotonicMilliseconds)
        readers.stop()
        administrator.stop()
        keeper.stop()
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

/// Feeds that the readers can't go on with, and those of which the database takes nothing any more.
final class FeedTroubles: Sendable {
    private struct State: Sendable {
        var reasons: [FeedClaim: String] = [:]
        var lost: Set<FeedClaim> = []
    }
    private let state = Mutex(State())

    func add(_ claims: Set<FeedClaim>, _ reason: String) {
        state.withLock { state in
            for claim in claims { state.reasons[claim] = reason }
        }
    }

    /// The database takes nothing more under these claims.
    func lose(_ claims: Set<FeedClaim>) {
        if !claims.isEmpty { state.withLock { $0.lost.formUnion(claims) } }
    }

    func take() -> [FeedClaim: String] {
        state.withLock { state in
            defer { state.reasons = [:] }
            return state.reasons
        }
    }

    func takeLost() -> Set<FeedClaim> {
        state.withLock { state in
            defer { state.lost = [] }
            return state.lost
        }
    }
}
