import LogStore
import Postgres
import Runtime
import Synchronization

@testable import Feeds

/// A dispatcher of feeds without threads and a database: commands are executed immediately.
final class DispatcherStateBench {
    /// The results of requests, by their numbers.
    final class Answers: Sendable {
        private let all = Mutex<[UInt64: String]>([:])

        func note(_ id: UInt64, _ text: String) { all.withLock { $0[id] = text } }
        subscript(_ id: UInt64) -> String? { all.withLock { $0[id] } }
        var count: Int { all.withLock { $0.count } }
    }

    let core: FeedCore
    let answers = Answers()
    private let state: FeedDispatcherState
    /// Milliseconds by which the dispatcher's clock is ahead of the system's.
    let ahead = MutexBox<Int64>(0)
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
        let clock = { [ahead] in
            FeedMachine.Moment(
                monotonic: Clock.monotonicMilliseconds + ahead.withLock { $0 }, unix: Clock.unixMilliseconds)
        }
        state = FeedDispatcherState(
            core, readers, FeedWriter(core, lost: { _ in }), FeedStatuses(), FeedFailures(), clock: clock
        ) { _ in }
    }

    /// Ends the threads of the core.
    func close() { core.close() }

    func handle(_ commands: FeedCommand...) { state.handle(commands) }

    // MARK: Feeds

    func claim(_ name: FeedName, generation: Int64 = 1) -> FeedClaim {
        FeedClaim(
            namespace: Int64(name.namespace.utf8.first ?? 0), feed: Int64(name.name.utf8.first ?? 0), worker: [1],
            generation: generation)
    }

    /// Runs a feed whose messages may be delivered immediately.
    ///
    /// - Parameter handedTo: The last entry of which a former run may have delivered messages.
    func begin(
        _ name: FeedName, generation: Int64 = 1, _ definition: String = #"{"path":"/x/{key}"}"#,
        handedTo: Int64 = 0, sink: (any Sink)? = nil
    ) throws {
        let claim = claim(name, generation: generation)
        let settings = FeedMachine.Settings()
        let window = FeedWindow(
            room: settings.windowMessages, bytes: settings.windowBytes,
            account: .init(memory: core.memory, claim: claim, namespace: name.namespace))
        handle(
            .begin(
                FeedRunStart(
                    name: name, uid: "", createdAt: 0, claim: claim,
                    definition: try FeedDefinition.read(Array(definition.utf8), name: name.name),
                    settings: settings,
                    progress: FeedProgress(seq: 0, handedTo: 1_000_000), adoptedThrough: handedTo,
                    adoptedUntil: handedTo > 0 ? Clock.monotonicMilliseconds + 30_000 : 0,
                    window: window, sink: sink, retried: FeedRetryPage())))
    }

    func end(_ name: FeedName, generation: Int64 = 1) { handle(.end(claim(name, generation: generation))) }

    /// Adds messages.
    ///
    /// - Parameters:
    ///   - key: Their key, or nil for different keys.
    ///   - seq: The entry before the first one, or nil to follow the previous messages.
    func push(_ count: Int, to name: FeedName, key: String? = nil, after seq: Int64? = nil, generation: Int64 = 1) {
        var finding = FoundMessages(claim: claim(name, generation: generation))
        if let seq { lastSeq = seq }
        for _ in 0..<count {
            lastSeq += 1
            finding.messages.append(
                FeedMessage(
                    position: FeedPosition(seq: lastSeq, index: 0), key: key ?? "k\(lastSeq)",
                    content: .stored(Array("{}".utf8))))
        }
        finding.readTo = LogPosition(seq: lastSeq)
        handle(.found([finding]))
    }

    // MARK: Requests

    /// Creates a pull and returns its number. Its result is stored in `answers`.
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

    /// Returns the status of a feed.
    func report(_ name: FeedName) -> FeedReport? {
        let found = MutexBox<FeedReport?>(nil)
        handle(.report(name, .any) { report, _ in found.withLock { $0 = report } })
        return found.withLock { $0 }
    }
}
