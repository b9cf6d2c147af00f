import LogStore
import Rules
import Testing
import Tree

@testable import Engine

/// Checks the recent log positions of namespaces.
@Suite struct RecentPositionsTests {
    private static func snapshot(_ seq: Int64, batch: [UInt8]? = nil) -> Snapshot {
        Snapshot(
            seq: seq, root: .null, rules: RulesVersion(seq: 0, set: .denyAll),
            batch: batch ?? [UInt8(truncatingIfNeeded: seq), UInt8(truncatingIfNeeded: seq >> 8)])
    }

    @Test func newestFirstAndOfOneNamespace() {
        let recent = RecentPositions()
        #expect(recent.of(1).isEmpty)
        for seq in 1...5 as ClosedRange<Int64> {
            recent.note(1, Self.snapshot(seq))
            recent.note(2, Self.snapshot(seq * 10))
        }
        #expect(recent.of(1).map(\.seq) == [5, 4, 3, 2, 1])
        #expect(recent.of(2).map(\.seq) == [50, 40, 30, 20, 10])
        #expect(recent.of(1).first?.batch == [5, 0])
        #expect(recent.of(3).isEmpty)
    }

    /// A position whose batch is unknown can't be compared.
    @Test func whatHasNoBatchIsNotKept() {
        let recent = RecentPositions()
        recent.note(1, Snapshot(seq: 3, root: .null, rules: RulesVersion(seq: 0, set: .denyAll)))
        #expect(recent.of(1).isEmpty)
    }

    /// A namespace that was rolled back has the same seqs twice.
    @Test func aSeqMayComeAgain() {
        let recent = RecentPositions()
        for (seq, batch) in [(5, 1), (6, 2), (5, 3)] as [(Int64, UInt8)] {
            recent.note(1, Self.snapshot(seq, batch: [batch]))
        }
        #expect(recent.of(1).map { [UInt8($0.seq)] + ($0.batch ?? []) } == [[5, 3], [6, 2], [5, 1]])
    }

    @Test(arguments: [4_095, 4_096, 4_097, 8_192, 10_000])
    func asManyAsItHolds(count: Int) {
        let recent = RecentPositions()
        for seq in 1...Int64(count) { recent.note(seq % 2, Self.snapshot(seq)) }
        let kept = Int64(min(count, 4_096))
        let all = (recent.of(0) + recent.of(1)).map(\.seq).sorted()
        #expect(all == Array((Int64(count) - kept + 1)...Int64(count)))
        #expect(recent.of(0).map(\.seq) == recent.of(0).map(\.seq).sorted(by: >))
    }
}
