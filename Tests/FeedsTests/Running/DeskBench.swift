import LogStore
import Postgres
import Runtime
import Synchronization

@testable import Feeds

/// A desk of feeds without threads and without a database: what the dispatcher is told is done at once.
final class DeskBench {
    /// What became of the requests, by their numbers.
    final class Answers: Sendable {
        private let all = Mutex<[UInt64: String]>([:])

        func note(_ id: UInt64, _ text: String) { all.withLock { $0[id] = text } }
        subscript(_ id: UInt64) -> String? { all.withLock { $0[id] } }
        var count: Int { all.withLock { $0.count } }
    }

    let core: FeedCore
    let answers = Answers()
    private let desk: FeedDesk
    private var lastID: UInt64 = 0
    private var lastSeq: Int64 = 0

    init(_ change: (inout FeedSettings) -> Void = { _ in }) throws {
        var settings = FeedSettings()
        change(&settings)
        core = FeedCore(
            url: try PostgresURL("postgres://nobody@127.0.0.1:1/none"), settings: settings,
            connectionSettings: LogConnection.Settings(), trees: FeedBench.NoTrees(),
            memory: FeedMemory(bytes: settings.allWindowsBytes), logger: Logger(level: .error, descriptor: -1),
            servers: ServerFence())
        core.lease.confirmed([1], until: .max)
        let readers = FeedReaders(core, found: { _ in }, keep: { _, _ in }, failed: { _, _ in })
        desk = FeedDesk(core, readers, FeedWriter(core, lost: { _ in }), FeedBoard(), FeedTroubles()) { _ in }
    }

    /// Ends the threads of the core.
    func close() { core.close() }

    func handle(_ commands: FeedCommand...) { desk.handle(commands) }

    // MARK: Feeds

    private func claim(_ name: FeedName, generation: Int64) -> FeedClaim {
        FeedClaim(
            namespace: Int64(name.namespace.utf8.first ?? 0), feed: Int64(name.name.utf8.first ?? 0), worker: [1],
            generation: generation)
    }

    /// Works a feed whose messages may be handed out at once.
    func begin(_ name: FeedName, generation: Int64 = 1, sink: (any Sink)? = nil) throws {
        let claim = claim(name, generation: generation)
        let settings = FeedMachine.Settings()
        let window = FeedWindow(
            room: settings.windowMessages, bytes: settings.windowBytes,
            account: .init(memory: core.memory, claim: claim, namespace: name.namespace))
        handle(
            .begin(
                FeedRunStart(
                    name: name, uid: "", createdAt: 0, claim: claim,
                    definition: try FeedDefinition.read(Array(#"{"path":"/x/{key}"}"#.utf8), name: name.name),
                    settings: settings,
                    progress: FeedProgress(seq: 0, handedTo: 1_000_000), adoptedThrough: 0, adoptedUntil: 0,
                    window: window, sink: sink, blockedKeys: [], retried: FeedRetryPage())))
    }

    func end(_ name: FeedName, generation: Int64 = 1) { handle(.end(claim(name, generation: generation))) }

    /// Brings messages of keys of their own.
    func push(_ count: Int, to name: FeedName, generation: Int64 = 1) {
        var finding = LaneFinding(claim: claim(name, generation: generation))
        for _ in 0..<count {
            lastSeq += 1
            finding.messages.append(
                FeedMessage(
                    position: FeedPosition(seq: lastSeq, index: 0), key: "k\(lastSeq)",
                    content: .stored(Array("{}".utf8))))
        }
        finding.readTo = LogCursor(seq: lastSeq)
        handle(.found([finding]))
    }

    // MARK: Requests

    /// Makes a pull and returns its number; `answers` has what became of it.
    func pull(
        _ name: FeedName, _ consumer: String = "c", most: Int = 1, mostHeld: Int? = nil, wait: Milliseconds = 60_000
    ) -> (id: UInt64, command: FeedCommand) {
        lastID += 1
        let id = lastID
        let pull = FeedPull(
            id: id, feed: name, consumer: consumer, most: most, mostHeld: mostHeld,
            deadline: Clock.monotonicMilliseconds + wait)
        let command = FeedCommand.pull(pull) { [answers] result in
            switch result {
            case .success(let deliveries): answers.note(id, deliveries.map(\.id).joined(separator: " "))
            case .failure(let error): answers.note(id, "\(error.refusal)")
            }
        }
        return (id, command)
    }

    /// How a feed fares.
    func report(_ name: FeedName) -> FeedReport? {
        let found = MutexBox<FeedReport?>(nil)
        handle(.report(name, .any) { report, _ in found.withLock { $0 = report } })
        return found.withLock { $0 }
    }
}
