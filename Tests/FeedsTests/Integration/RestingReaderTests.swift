import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import Feeds

/// Checks that shared readers whose messages are consumed slowly while memory is short evict their trees repeatedly,
/// without losing or repeating messages.
@Suite struct RestingReaderTests {
    /// A source without trees, and with little memory for trees that are built.
    private struct Memory: TreeSource {
        let budget: TreeBudget
        let forgotten = MutexBox(0)

        func watch(_ name: String, _ namespace: Int64, _ body: @escaping @Sendable () -> Void) {}
        func isComing(_ namespace: Int64) -> Bool { false }
        func tree(of namespace: Int64, at seq: Int64) -> TreeVersion? { nil }
        func steps(of namespace: Int64, after cursor: LogPosition, most: Int) -> [TreeStep]? { nil }
        func forget(_ namespace: Int64) { forgotten.withLock { $0 += 1 } }
        func room(while continues: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget {
            budget.room(while: continues)
        }
    }

    /// A reader of one feed. The test decides when its messages are consumed.
    private final class Bench {
        let memory: Memory
        let feed: SharedReaderFeed
        let found = MutexBox<[FeedMessage]>([])
        let restarted = MutexBox<[String]>([])
        private let core: FeedCore
        var log: LogConnection
        private let window: Int
        private var taken = 0
        let reader: NamespaceReader

        init(
            _ bench: FeedBench, from progress: FeedProgress, window: Int, bytes: Int,
            _ change: (inout FeedSettings) -> Void = { _ in }
        ) throws {
            var settings = FeedSettings()
            settings.idleReaderMilliseconds = 0
            settings.keepingFactor = 0
            change(&settings)
            memory = Memory(budget: TreeBudget(bytes: bytes))
            core = FeedCore(
                url: bench.url, settings: settings, connectionSettings: LogConnection.Settings(), trees: memory,
                memory: FeedMemory(bytes: settings.allWindowsBytes), logger: Logger(level: .error, descriptor: -1),
                servers: ServerFence())
            log = bench.log
            self.window = window
            feed = try SharedReaderBench.feed(1, "/a/{k}", room: window)
            reader = NamespaceReader(
                core, try bench.namespaceID(),
                found: { [found] findings in found.withLock { $0 += findings.flatMap(\.messages) } },
                restart: { [restarted] _, reason in restarted.withLock { $0.append(reason) } }, keep: { _ in },
                wake: {})
            try add(feed, bench, from: progress)
        }

        /// Starts another feed.
        func add(_ feed: SharedReaderFeed, _ bench: FeedBench, from progress: FeedProgress) throws {
            var base: TreeVersion?
            let start = FeedStart(feed: feed, name: bench.name("f\(feed.claim.feed)"), progress: progress)
            #expect(try reader.add(start, on: log, from: &base))
        }

        deinit { core.close() }

        var count: Int { found.withLock { $0.count } }

        /// Reads as far as the budget allows, and counts the trees after each step.
        func read() throws { while try reader.step(on: log) { reader.readerTrees.hurry() } }

        /// Marks the found messages as consumed and done.
        func takeIn() {
            SharedReaderBench.takeIn(feed, count - taken, room: window)
            taken = count
        }

        /// Reads and consumes until there are `last` messages. Returns the number of evictions.
        func readAll(_ last: Int) throws -> Int {
            var rests = 0
            while count < last {
                let before = count
                try read()
                try #require(count > before, "\(count), \(restarted.withLock { $0 })")
                if !reader.resting.isEmpty { rests += 1 }
                takeIn()
            }
            return rests
        }
    }

    private static let records = 30

    private func write(_ failedMessage: String, _ bench: FeedBench) throws {
        for number in 0..<Self.records {
            let text = "\(number) " + String(repeating: failedMessage, count: 20_000)
            try bench.set("/a/k\(100 + number)", .string(text))
        }
    }

    @Test(arguments: [false, true]) func theyResumeWhereTheyWere(withSnapshot: Bool) throws {
        try FeedBench.with { bench in
            try write("x", bench)
            var progress = FeedProgress(seq: 0)
            if withSnapshot {
                let seq = try bench.log.takeSnapshot(try bench.namespaceID())
                progress = FeedProgress(seq: seq, snapshotSeq: seq)
            }
            try write("y", bench)
            let wanted = try Bench(bench, from: progress, window: 1_000, bytes: 1 << 30)
            #expect(try wanted.readAll(2 * Self.records) == 0)
            let short = try Bench(bench, from: progress, window: 2, bytes: 20_000)
            #expect(try short.readAll(2 * Self.records) >= Self.records - 1)
            let texts = [wanted, short].map { SharedReaderBench.texts($0.found.withLock { $0 }) }
            #expect(texts[0].count == 2 * Self.records && texts[0] == texts[1])
            #expect(short.restarted.withLock { $0 }.isEmpty)
        }
    }

    /// Checks that a reader whose messages are consumed slowly does not rebuild its tree for each message.
    @Test func aTreeThatWasMadeAgainIsKept() throws {
        try FeedBench.with { bench in
            try write("x", bench)
            let short = try Bench(
                bench, from: FeedProgress(seq: 0), window: 2, bytes: 20_000
            ) {
                $0.keepingFactor = 1_000_000
            }
            #expect(try short.readAll(Self.records) == 1)
            #expect(short.reader.resting.isEmpty && short.restarted.withLock { $0 }.isEmpty)
        }
    }

    @Test func theTreeOfARestingReaderIsFree() throws {
        try FeedBench.with { bench in
            try write("x", bench)
            let short = try Bench(bench, from: FeedProgress(seq: 0), window: 2, bytes: 20_000)
            try short.read()
            #expect(short.reader.readings.isEmpty && short.reader.resting.count == 1 && short.count == 2)
            #expect(short.memory.budget.total.bytes == 0)
            // The memory budget is exhausted.
            try short.read()
            #expect(short.reader.resting.count == 1)
            #expect(short.memory.forgotten.withLock { $0 } == 0)
            short.reader.remove(short.feed.claim)
            #expect(short.reader.resting.isEmpty && short.memory.forgotten.withLock { $0 } == 1)
        }
    }

    /// Checks that a reader that loses its connection each time its tree is built pauses, while readers with trees
    /// continue.
    @Test(arguments: [0, 3_600_000] as [Milliseconds]) func aTreeThatTakesTheConnection(retry: Milliseconds) throws {
        try FeedBench.with { bench in
            try write("x", bench)
            let short = try Bench(bench, from: FeedProgress(seq: 0), window: 2, bytes: 20_000) {
                $0.firstRetryMilliseconds = retry
                $0.maxRetryMilliseconds = retry
            }
            try short.read()
            #expect(short.reader.resting.count == 1 && short.count == 2)
            let head = Int64(Self.records)
            try short.add(try SharedReaderBench.feed(2, "/b/{k}"), bench, from: FeedProgress(seq: head))
            short.takeIn()
            try bench.set("/b/k1", .int(1))
            let lost = LosingCall(.before, on: "", of: "select seq, (extract")
            var settings = LogConnection.Settings()
            settings.connection.faults = lost
            short.log = try LogConnection(bench.url, settings: settings)
            #expect(throws: (any Error).self) { _ = try short.reader.step(on: short.log) }
            #expect(lost.count == 1 && !short.log.isOpen, "the call was not made")
            #expect(short.count == 3 && short.reader.resting.count == 1)
            short.log.close()
            short.log = bench.log
            try bench.set("/b/k2", .int(2))
            short.reader.headSeen()
            _ = try short.reader.step(on: short.log)
            #expect(short.count == 4 && short.reader.resting.count == (retry == 0 ? 0 : 1))
            #expect(short.restarted.withLock { $0 }.isEmpty)
        }
    }

    /// Checks that readers rebuild their trees one after another, with reads of the namespace's other readers in
    /// between.
    @Test func readersWakeOneAfterAnother() throws {
        try FeedBench.with { bench in
            try write("x", bench)
            let short = try Bench(bench, from: FeedProgress(seq: 0), window: 2, bytes: 20_000) {
                $0.wakingMilliseconds = 0
            }
            let others = try (2...3).map { try SharedReaderBench.feed($0, "/a/{k}", room: 2) }
            for (number, other) in others.enumerated() {
                try short.add(other, bench, from: FeedProgress(seq: Int64(number + 1) * 10))
            }
            try short.read()
            #expect(short.reader.resting.count == 3 && short.count == 6)
            for feed in [short.feed] + others { SharedReaderBench.takeIn(feed, 2, room: 2) }
            var left: [Int] = []
            for _ in 0..<3 {
                #expect(try short.reader.step(on: short.log))
                left.append(short.reader.readings.count + 10 * short.reader.resting.count)
                short.reader.readerTrees.hurry()
            }
            #expect(left.first == 21 && short.count >= 10, "\(left), \(short.count)")
        }
    }

    /// Checks that a feed is restarted if the log no longer contains the entries from which its tree is built.
    @Test func aTreeThatCannotBeMadeAgain() throws {
        try FeedBench.with { bench in
            try write("x", bench)
            let short = try Bench(bench, from: FeedProgress(seq: 0), window: 2, bytes: 20_000)
            try short.read()
            #expect(short.reader.resting.count == 1)
            try bench.log.sql.executeScript("update pathmirror.namespace set retained_from = 20")
            short.takeIn()
            try short.read()
            #expect(short.restarted.withLock { $0.count } == 1 && short.count == 2)
            #expect(short.reader.resting.isEmpty && short.reader.readings.isEmpty)
        }
    }
}
