import Engine
import HTTPClient
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// A namespace with an engine for writes, feed administration, and services that run feeds, on one test's database.
final class FeedBench {
    /// A source without trees, so that every tree is built from the log.
    struct NoTrees: TreeSource {
        func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void) {}
        func isComing(_ namespace: Int64) -> Bool { false }
        func tree(of namespace: Int64, at seq: Int64) -> TreeVersion? { nil }
        func steps(of namespace: Int64, after cursor: LogPosition, most: Int) -> [TreeStep]? { nil }
        func forget(_ namespace: Int64) {}
        func room(while continues: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget {
            budget.room(while: continues)
        }

        let budget = TreeBudget(bytes: 1 << 30)
    }

    let url: PostgresURL
    let engine: TestEngine
    let namespace: LiveNamespace
    let log: LogConnection
    let administration: FeedAdministration
    private let client: HTTPClient

    private init(_ url: PostgresURL, _ engine: TestEngine) throws {
        self.url = url
        self.engine = engine
        namespace = try engine.namespace()
        log = try LogConnection(url)
        administration = FeedAdministration(log)
        client = try HTTPClient()
    }

    /// Runs `body` with a bench.
    static func with(_ body: (FeedBench) throws -> Void) throws {
        try withEngines { url, engines in
            let bench = try FeedBench(url, engines[0])
            defer {
                bench.log.close()
                bench.client.stop()
            }
            try body(bench)
        }
    }

    // MARK: Writing

    /// Writes a value and returns the entry's seq.
    @discardableResult func set(_ path: String, _ value: Node) throws -> Int64 {
        let outcome = namespace.write(.set(path, value))
        return try #require(outcome?.committedSeq, "\(String(describing: outcome))")
    }

    // MARK: Feeds

    func name(_ feed: String) -> FeedName { FeedName(namespace: "test", name: feed) }

    func namespaceID() throws -> Int64 { try #require(try log.namespace(named: "test")).id }

    /// The progress of a feed in the database.
    func progress(_ feed: String) throws -> FeedProgress {
        let record = try #require(try log.feeds(definitions: false).first { $0.name == feed })
        let stored = try #require(try log.feedProgress(record.namespaceID, record.id))
        return try #require(FeedProgress(stored))
    }

    @discardableResult func apply(_ feed: String, _ definition: String) throws -> FeedAdministration.Applied {
        try administration.apply(try FeedDefinition.read(Array(definition.utf8), name: feed), to: "test")
    }

    func status(_ feed: String) throws -> FeedStatusRecord { try administration.status(name(feed)) }

    // MARK: Services

    /// Starts a service.
    ///
    /// - Parameters:
    ///   - role: The role of its connections, or nil for the schema's owner.
    ///   - faults: The calls that lose their connection.
    func service(
        _ url: PostgresURL? = nil, role: String? = nil, trees: (any TreeSource)? = nil,
        faults: (any CallFaults)? = nil, logger: Logger = Logger(level: .error, descriptor: -1),
        _ change: (inout FeedSettings) -> Void = { _ in }
    ) throws -> FeedService {
        var settings = FeedSettings()
        settings.heartbeatMilliseconds = 50
        settings.expiryMilliseconds = 2_000
        settings.firstRetryMilliseconds = 10
        settings.maxRetryMilliseconds = 100
        settings.ownerWaitMilliseconds = 100
        change(&settings)
        var session = LogConnection.Settings()
        session.connection.sessionSettings["role"] = role
        session.connection.faults = faults
        let service = FeedService(
            url: url ?? self.url, settings: settings, connectionSettings: session,
            announcements: engine.engine.announcements, trees: trees ?? NoTrees(),
            logger: logger,
            sinks: SinkMaker(client: client, exceptions: .thisMachine, servers: .thisMachine, environment: [:]))
        service.begin(port: 1)
        return service
    }

    /// Runs `body` while a service runs the feeds.
    func serving(
        _ change: (inout FeedSettings) -> Void = { _ in }, _ body: (FeedService) throws -> Void
    ) throws {
        let service = try service(nil, change)
        defer { service.stop() }
        try body(service)
    }
}

/// A consumer of one feed, which pulls from each gateway in turn and records its deliveries and acknowledgements.
final class BenchConsumer {
    let feed: FeedName
    let name: String
    var most = 100
    /// The messages whose acknowledgement was confirmed, in order.
    private(set) var done: [FeedDelivery] = []
    private var doneIDs: Set<String> = []
    /// The messages whose acknowledgement was sent, confirmed or not: an answer may be lost.
    private(set) var sent: Set<String> = []
    /// The ids of messages that were delivered after they had been acknowledged.
    private(set) var repeated: [String] = []

    init(_ feed: FeedName, _ name: String = "c") {
        self.feed = feed
        self.name = name
    }

    func pull(_ service: FeedService) -> Result<[FeedDelivery], FeedRefusalError> {
        let answer = Condition<Result<[FeedDelivery], FeedRefusalError>?>(nil)
        service.pull(feed, consumer: name, most: most, waitMilliseconds: 50) { result in
            answer.broadcast { $0 = result }
        }
        return answer.wait(milliseconds: 30_000) { $0 } ?? .failure(FeedRefusalError(.stopping))
    }

    /// Settles messages. Returns the results, or nothing if the gateway does not run the feed.
    func settle(_ service: FeedService, _ ids: [String], _ settlement: FeedSettlement) -> [String] {
        let answer = Condition<[String]?>(nil)
        service.settle(feed, ids: ids, consumer: name, settlement) { result in
            answer.broadcast { $0 = (try? result.get()) ?? [] }
        }
        return answer.wait(milliseconds: 30_000) { $0 } ?? []
    }

    /// Pulls once, and records repeated messages.
    func receive(_ service: FeedService) -> [FeedDelivery] {
        guard case .success(let deliveries) = pull(service) else { return [] }
        repeated += deliveries.map(\.id).filter(doneIDs.contains)
        return deliveries
    }

    func acknowledge(_ service: FeedService, _ deliveries: [FeedDelivery]) {
        guard !deliveries.isEmpty else { return }
        sent.formUnion(deliveries.map(\.id))
        let words = settle(service, deliveries.map(\.id), .acknowledge)
        for (delivery, word) in zip(deliveries, words) where word == "done" {
            if doneIDs.insert(delivery.id).inserted { done.append(delivery) }
        }
    }

    /// Pulls and acknowledges messages until `isThere` returns true. Returns false after 30 seconds.
    func consume(_ services: [FeedService], until isThere: () throws -> Bool) rethrows -> Bool {
        let end = Clock.monotonicMilliseconds + 30_000
        while Clock.monotonicMilliseconds < end {
            for service in services { acknowledge(service, receive(service)) }
            if try isThere() { return true }
        }
        return false
    }

    var ids: [String] { done.map(\.id) }
}

extension FeedBench {
    func consumer(_ feed: String, _ consumer: String = "c") -> BenchConsumer { BenchConsumer(name(feed), consumer) }

    /// Pulls and acknowledges all messages up to the newest entry.
    func drain(_ consumer: BenchConsumer, _ services: FeedService...) throws {
        let isThere = try consumer.consume(services) {
            let status = try status(consumer.feed.name)
            return status.seq >= status.head
        }
        let last = try status(consumer.feed.name)
        #expect(isThere, "\(last)")
    }
}
