import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the notifications that listeners receive of published steps, and their order.
@Suite struct PublishedSnapshotTests {
    private static let rules = RulesVersion(seq: 0, set: .denyAll)

    private static func snapshot(_ seq: Int64, _ root: Node = .null, rules: RulesVersion = rules) -> Snapshot {
        Snapshot(seq: seq, root: root, rules: rules)
    }

    /// Returns the steps after one seq, each of which changes the given paths.
    private static func steps(_ changes: [[String]], after seq: Int64) -> [Step] {
        changes.enumerated().map { offset, paths in
            let entry = Entry(
                seq: seq + 1 + Int64(offset), committedAt: 0, operation: .update, path: .root,
                changes: paths.map { Change(path: Path(splitting: $0), value: .int(1)) })
            return Step(entry: entry, before: .null, after: .null)
        }
    }

    @Test func eachListenerReceivesTheStepsThatTouchIt() {
        let published = PublishedSnapshot(Self.snapshot(5))
        let listeners = ["", "a", "a/b", "c"].map { NamedListener($0) }
        for one in listeners { #expect(published.subscribe(one, at: Path(splitting: one.name)).seq == 5) }
        published.publish(Self.steps([["a/b/c"], ["c"], ["a"], ["x"]], after: 5), Self.snapshot(9))
        #expect(listeners.map(\.reported) == [["steps 6 7 8 9"], ["steps 6 8"], ["steps 6 8"], ["steps 7"]])
        #expect(published.snapshot.seq == 9)
    }

    /// A step that touches a listener at several paths is delivered once.
    @Test func oneStepIsReportedOnce() {
        let published = PublishedSnapshot(Self.snapshot(0))
        let listener = NamedListener("")
        _ = published.subscribe(listener, at: .root)
        published.publish(Self.steps([["a", "b", "c"], ["a", "b"]], after: 0), Self.snapshot(2))
        #expect(listener.reported == ["steps 1 2"])
    }

    @Test func untouchedListenersReceiveNothing() {
        let published = PublishedSnapshot(Self.snapshot(0))
        let listener = NamedListener("a")
        _ = published.subscribe(listener, at: Path(splitting: "a"))
        published.publish(Self.steps([["b"]], after: 0), Self.snapshot(1))
        published.publish([], Self.snapshot(1))
        #expect(listener.reported == [])
    }

    /// A new listener receives later steps only; a removed listener receives none.
    @Test func subscriptionsBeginAndEnd() {
        let published = PublishedSnapshot(Self.snapshot(0))
        let (early, late) = (NamedListener("early"), NamedListener("late"))
        #expect(published.subscribe(early, at: .root).seq == 0)
        published.publish(Self.steps([["a"]], after: 0), Self.snapshot(1))
        #expect(published.subscribe(late, at: .root).seq == 1)
        #expect(published.listenerCount == 2)
        published.publish(Self.steps([["a"]], after: 1), Self.snapshot(2))
        published.unsubscribe(early, at: .root)
        published.publish(Self.steps([["a"]], after: 2), Self.snapshot(3))
        #expect(early.reported == ["steps 1", "steps 2"])
        #expect(late.reported == ["steps 2", "steps 3"])
        #expect(published.listenerCount == 1)
    }

    @Test func allListenersReceiveNewRulesAfterTheirSteps() {
        let published = PublishedSnapshot(Self.snapshot(0))
        let (touched, other) = (NamedListener("a"), NamedListener("b"))
        for one in [touched, other] { _ = published.subscribe(one, at: Path(splitting: one.name)) }
        let newer = RulesVersion(seq: 2, set: .denyAll)
        published.publish(Self.steps([["a"], []], after: 0), Self.snapshot(2, rules: newer))
        #expect(touched.reported == ["steps 1", "rules 2"])
        #expect(other.reported == ["rules 2"])
        published.publish(Self.steps([["a"]], after: 2), Self.snapshot(3, rules: newer))
        #expect(other.reported == ["rules 2"], "the same rules are no news")
    }

    @Test func changesWithoutListenersNeedNoSteps() {
        let published = PublishedSnapshot(Self.snapshot(0))
        #expect(published.publishUnheard(Self.snapshot(4)))
        #expect(published.snapshot.seq == 4)
        let listener = NamedListener("a")
        _ = published.subscribe(listener, at: Path(splitting: "a"))
        #expect(!published.publishUnheard(Self.snapshot(5)))
        #expect(published.snapshot.seq == 4 && listener.reported == [])
        published.unsubscribe(listener, at: Path(splitting: "a"))
        #expect(published.publishUnheard(Self.snapshot(5)))
    }

    @Test func allListenersReceiveAResetAndAnEnd() {
        let published = PublishedSnapshot(Self.snapshot(7))
        let listeners = ["", "a"].map { NamedListener($0) }
        for one in listeners { _ = published.subscribe(one, at: Path(splitting: one.name)) }
        published.reset(to: Self.snapshot(3))
        #expect(published.snapshot.seq == 3)
        published.end(with: Self.snapshot(0))
        #expect(listeners.map(\.reported) == [["reset 3", "rules 0", "ended"], ["reset 3", "rules 0", "ended"]])
        #expect(published.snapshot.seq == 0)
    }

    /// Listeners that subscribe during frequent publishing each get a snapshot, and then every later step without a
    /// gap.
    @Test func noListenerMissesAStep() {
        let published = PublishedSnapshot(Self.snapshot(0))
        let found = MutexBox<[String]>([])
        let subscribers = (0..<3).map { number in
            Thread(name: "subscriber") {
                for round in 0..<40 {
                    let listener = CountingListener()
                    let first = published.subscribe(listener, at: .root).seq
                    while published.snapshot.seq < min(first + 3, 2_000) {}
                    published.unsubscribe(listener, at: .root)
                    let seqs = listener.seqs
                    let expected = seqs.indices.map { first + 1 + Int64($0) }
                    if seqs != expected { found.withLock { $0.append("\(number) \(round): \(seqs) after \(first)") } }
                }
            }
        }
        for seq in 0..<2_000 as Range<Int64> {
            published.publish(Self.steps([["a"]], after: seq), Self.snapshot(seq + 1))
        }
        for thread in subscribers { thread.join() }
        #expect(found.withLock { $0 } == [])
    }

    private final class CountingListener: ChangeListener {
        private let state = MutexBox<[Int64]>([])
        var seqs: [Int64] { state.withLock { $0 } }
        func changed(_ steps: [Step]) { state.withLock { $0 += steps.map(\.entry.seq) } }
        func reset(to snapshot: Snapshot) {}
        func rulesChanged(in snapshot: Snapshot) {}
        func ended() {}
    }
}
