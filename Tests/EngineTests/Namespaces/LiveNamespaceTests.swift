import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks how a namespace handles writes, and when it requests a committer, without a committer.
@Suite struct LiveNamespaceTests {
    private static func large(_ path: String = "a") -> Write {
        Write(
            .set(Path(splitting: path), .int(1)), operation: .set, byteCount: 2_000_000, auth: .admin,
            mayBeOvertaken: true)
    }

    @Test func itIsHandedOverOnceUntilItIsDone() {
        let handed = HandedOver()
        let namespace = LiveNamespace.test(handed: handed)
        #expect(namespace.isIdle)
        for token in 0..<5 as Range<UInt64> { namespace.submit(.set("a", .int(1)), to: CollectingSink(), token: token) }
        namespace.headSeen(9)
        namespace.suspect()
        #expect(handed.namespaces == 1)
        #expect(!namespace.isIdle && namespace.waitingWrites == 5)
        let task = namespace.takeTask()
        #expect(task.batch.map(\.token) == [0, 1, 2, 3, 4] && task.isSuspect && task.remoteHead == 9)
        namespace.submit(.set("a", .int(1)), to: CollectingSink(), token: 5)
        #expect(namespace.finishedTask(followsLog: true), "more came meanwhile")
        #expect(handed.namespaces == 1)
        _ = namespace.takeTask()
        #expect(!namespace.finishedTask(followsLog: false))
        namespace.submit(.set("a", .int(1)), to: CollectingSink(), token: 6)
        #expect(handed.namespaces == 2)
    }

    @Test func aWriteHasItsDeadlineFromWhenItCame() throws {
        var settings = EngineSettings()
        settings.commitDeadlineMilliseconds = 5_000
        let namespace = LiveNamespace.test(.null, settings)
        let before = Clock.monotonicMilliseconds
        namespace.submit(.set("a", .int(1)), to: CollectingSink(), token: 0)
        let deadline = try #require(namespace.takeTask().batch.first?.deadline)
        #expect((before + 5_000...Clock.monotonicMilliseconds + 5_000).contains(deadline))
    }

    // MARK: Refusals

    @Test func refusedWritesAreAnsweredAtOnce() {
        let handed = HandedOver()
        let namespace = LiveNamespace.test(handed: handed)
        let sink = CollectingSink()
        namespace.refuseWrites(.stopping)
        namespace.submit(.set("a", .int(1)), to: sink, token: 1)
        namespace.submit(Self.large(), to: sink, token: 2)
        #expect(sink.outcomes[1]?.failure == .stopping && sink.outcomes[2]?.failure == .stopping)
        #expect(handed.namespaces == 0 && handed.large.isEmpty && namespace.isIdle)
        namespace.refuseWrites(nil)
        namespace.submit(.set("a", .int(1)), to: sink, token: 3)
        #expect(sink.outcomes[3] == nil && handed.namespaces == 1)
    }

    @Test func whileTheDatabaseIsAwayWritesFailAtOnce() {
        let time = MutexBox<Int64>(0)
        let health = DatabaseHealth(now: { time.withLock { $0 } })
        let namespace = LiveNamespace.test(health: health)
        let sink = CollectingSink()
        _ = health.markUp()
        _ = health.markDown("gone")
        namespace.submit(.set("a", .int(1)), to: sink, token: 1)
        #expect(sink.outcomes.isEmpty, "it may be back in a moment")
        time.withLock { $0 = 5_000 }
        namespace.submit(.set("a", .int(1)), to: sink, token: 2)
        #expect(sink.outcomes[2]?.failure == .unavailable("gone"))
        _ = health.markUp()
        namespace.submit(.set("a", .int(1)), to: sink, token: 3)
        #expect(sink.outcomes.count == 1)
    }

    @Test func aFullQueueRefusesTheNewest() {
        var settings = EngineSettings()
        settings.maxWaitingWrites = 3
        let namespace = LiveNamespace.test(.null, settings)
        let sink = CollectingSink()
        for token in 0..<5 as Range<UInt64> { namespace.submit(.set("a", .int(1)), to: sink, token: token) }
        #expect(sink.outcomes.keys.sorted() == [3, 4])
        #expect(sink.outcomes.values.allSatisfy { $0.failure == .overloaded })
    }

    @Test func whatIsLeftWhenTheCommittersHaveEnded() {
        let namespace = LiveNamespace.test()
        for token in 0..<3 as Range<UInt64> { namespace.submit(.set("a", .int(1)), to: CollectingSink(), token: token) }
        #expect(namespace.takeAllWaiting().map(\.token) == [0, 1, 2])
        #expect(namespace.takeAllWaiting().isEmpty)
    }

    // MARK: Large writes

    @Test func aLargeWriteIsPreparedBesideTheOthersIfItMayBeOvertaken() {
        let handed = HandedOver()
        let namespace = LiveNamespace.test(handed: handed)
        namespace.submit(Self.large(), to: CollectingSink(), token: 1)
        #expect(handed.large == [1] && handed.namespaces == 0 && namespace.waitingWrites == 0)
        var inOrder = Self.large()
        inOrder.mayBeOvertaken = false
        namespace.submit(inOrder, to: CollectingSink(), token: 2)
        #expect(handed.large == [1] && handed.namespaces == 1 && namespace.waitingWrites == 1)
    }

    /// The rows that a write replaces count as well as those that it brings.
    @Test(arguments: [(4, 0, false), (5, 0, false), (0, 5, false), (3, 3, true), (0, 6, true), (6, 0, true)])
    func whatCountsAsLarge(brings: Int, replaces: Int, isLarge: Bool) {
        var settings = EngineSettings()
        settings.largeWriteRows = 5
        func rows(_ count: Int) -> Node { Node(children: (0..<count).map { (Key("k\($0)"), Node.int(1)) }) }
        let root = Node.null.replacing(Path(splitting: "a"), with: rows(replaces))
        let namespace = LiveNamespace.test(root, settings)
        #expect(namespace.isLarge(.set("a", rows(brings))) == isLarge)
        #expect(namespace.isLarge(.update("", [("a", rows(brings))])) == isLarge)
        #expect(!namespace.isLarge(.set("b", rows(2))))
    }

    @Test func anUpdateOfManyPathsIsLargeWithoutCounting() {
        var settings = EngineSettings()
        settings.largeWriteRows = 100
        let namespace = LiveNamespace.test(.null, settings)
        #expect(!namespace.isLarge(.update("", (0..<20).map { ("k\($0)", .null) })))
        #expect(namespace.isLarge(.update("", (0..<21).map { ("k\($0)", .null) })))
    }

    @Test func rulesAndEndedSessionsAreNeverLarge() throws {
        var settings = EngineSettings()
        settings.largeWriteRows = 0
        let namespace = LiveNamespace.test(.null, settings)
        let rules = try RuleSet(json: Array("{\"rules\":{}}".utf8))
        #expect(!namespace.isLarge(Write(.rules(rules), operation: .rules, byteCount: 10, auth: .admin)))
        let ended = WriteQueue.Waiting.test(alone: true)
        #expect(!namespace.isLarge(ended.write) && ended.goesAlone)
        #expect(!WriteQueue.Waiting.test().goesAlone)
    }

    // MARK: Reading

    @Test func waitersForASeqAreNotifiedOnceItIsThere() {
        let handed = HandedOver()
        let namespace = LiveNamespace.test(seq: 5, handed: handed)
        let reported = MutexBox<[Int64]>([])
        for seq in [5, 7, 6] as [Int64] { namespace.whenApplied(seq) { reported.withLock { $0.append(seq) } } }
        #expect(reported.withLock { $0 } == [5])
        #expect(handed.namespaces == 1, "a committer looks whether it is in the log")
        #expect(namespace.takeTask().hasWaiters)
        namespace.publish([], Snapshot(seq: 6, root: .null, rules: namespace.snapshot.rules))
        #expect(reported.withLock { $0 } == [5, 6])
        #expect(namespace.publishUnheard(Snapshot(seq: 9, root: .null, rules: namespace.snapshot.rules)))
        #expect(reported.withLock { $0 } == [5, 6, 7])
        #expect(namespace.lag == 0)
    }

    @Test func lagIsWhatWasHeardOfAndIsNotHere() {
        let namespace = LiveNamespace.test(seq: 5)
        #expect(namespace.lag == 0)
        namespace.headSeen(9)
        #expect(namespace.lag == 4)
        namespace.reset(to: Snapshot(seq: 7, root: .null, rules: namespace.snapshot.rules))
        #expect(namespace.lag == 0 && namespace.snapshot.seq == 7)
    }

    /// An update of nothing goes to the committers, which check the head before they answer.
    @Test func theCurrentSnapshotIsAskedOfACommitter() throws {
        let namespace = LiveNamespace.test(seq: 5)
        let seen = MutexBox<[String]>([])
        let note: @Sendable (Result<Snapshot, EngineError>) -> Void = { result in
            seen.withLock { $0.append((try? result.get().seq).map { "\($0)" } ?? "failed") }
        }
        namespace.withCurrentSnapshot(note)
        let item = try #require(namespace.takeTask().batch.first)
        guard case .update(_, let changes) = item.write.action else {
            Issue.record("not an update")
            return
        }
        #expect(changes.isEmpty && seen.withLock { $0 } == [])
        item.sink.complete([(item.token, .committed(seq: 5, changes: []))])
        #expect(seen.withLock { $0 } == ["5"])
        namespace.refuseWrites(.stopping)
        namespace.withCurrentSnapshot(note)
        #expect(seen.withLock { $0 } == ["5", "failed"])
    }

    @Test func whatIsGoneEndsItsListenersAndRefusesWrites() {
        let namespace = LiveNamespace.test(seq: 5, name: "mine")
        let listener = NamedListener("a")
        _ = namespace.subscribe(listener, at: .root)
        namespace.end(with: Snapshot(seq: 0, root: .null, rules: namespace.snapshot.rules), .unknownNamespace("mine"))
        let sink = CollectingSink()
        namespace.submit(.set("a", .int(1)), to: sink, token: 1)
        #expect(listener.reported == ["ended"])
        #expect(sink.outcomes[1]?.failure == .unknownNamespace("mine"))
        #expect(namespace.snapshot.seq == 0)
    }
}
