import LogStore
import Testing

/// Checks that the step for a log follows from its policy, its snapshots and the time.
@Suite struct RetentionStepTests {
    private static let hour: Int64 = 3_600_000

    private static func snapshot(_ seq: Int64, at time: Int64) -> TreeSnapshot {
        TreeSnapshot(seq: seq, createdAt: time, rowCount: 1, purpose: .retention)
    }

    private static func step(
        _ policy: RetentionPolicy, head: Int64, from: Int64 = 1, wanted: Int64, _ snapshots: [TreeSnapshot], now: Int64
    ) -> RetentionStep {
        RetentionStep(policy, head: head, retainedFrom: from, wantedFrom: wanted, snapshots: snapshots, now: now)
    }

    @Test func byAge() {
        let policy = RetentionPolicy(keeping: .seconds(4 * 3_600))
        #expect(policy.snapshotInterval == 3_600)
        // A log without entries needs no snapshot.
        #expect(Self.step(policy, head: 0, wanted: 1, [], now: 0) == RetentionStep())
        #expect(Self.step(policy, head: 5, wanted: 1, [], now: 0) == RetentionStep(takesSnapshot: true))
        let first = Self.snapshot(5, at: 0)
        #expect(Self.step(policy, head: 9, wanted: 1, [first], now: Self.hour - 1) == RetentionStep())
        #expect(Self.step(policy, head: 9, wanted: 1, [first], now: Self.hour) == RetentionStep(takesSnapshot: true))
        // The tree is unchanged since the snapshot.
        #expect(Self.step(policy, head: 5, wanted: 1, [first], now: 9 * Self.hour) == RetentionStep())
        // The log is cut at a snapshot, and never after the wanted position.
        let second = Self.snapshot(9, at: Self.hour)
        for (wanted, newFrom) in [(5, nil), (6, 6), (9, 6), (10, 10), (12, 10)] as [(Int64, Int64?)] {
            let step = Self.step(policy, head: 12, wanted: wanted, [first, second], now: Self.hour + 1)
            #expect(step == RetentionStep(newFrom: newFrom), "\(wanted)")
        }
        #expect(
            Self.step(policy, head: 12, from: 10, wanted: 12, [second], now: Self.hour + 1) == RetentionStep())
    }

    @Test func byNumber() {
        let policy = RetentionPolicy(keeping: .entries(8_000))
        let first = Self.snapshot(100, at: 0)
        #expect(Self.step(policy, head: 2_099, wanted: 1, [first], now: 1) == RetentionStep())
        #expect(Self.step(policy, head: 2_100, wanted: 1, [first], now: 1) == RetentionStep(takesSnapshot: true))
        // A day without a snapshot is too long, however few entries there are.
        #expect(Self.step(policy, head: 101, wanted: 1, [first], now: 24 * Self.hour).takesSnapshot)
    }

    @Test func snapshotsAsAsked() {
        let policy = RetentionPolicy(keeping: .seconds(86_400), snapshotSeconds: 600)
        #expect(policy.snapshotInterval == 600)
        #expect(RetentionPolicy(keeping: .seconds(10)).snapshotInterval == 60)
        #expect(RetentionPolicy(keeping: nil, maxBytes: 5).snapshotEntries(retained: 64_000_000) == 1_000_000)
        #expect(RetentionPolicy(keeping: nil, maxBytes: 5).snapshotEntries(retained: 6_400_000_000) == 100_000_000)
    }
}
