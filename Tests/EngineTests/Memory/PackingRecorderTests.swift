import LogStore
import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// What is written to a namespace while its tree is put into pages.
@Suite struct PackingRecorderTests {
    @Test func writesAreDoneInTheirOrderAndRulesMoveTheEntry() throws {
        let recorder = PackingRecorder(mostBytes: 1 << 20)
        var tree = PackedTree(.null, seq: 3, recorder, leftBytes: 0)
        #expect(tree.catchUp() == 0 && tree.seq == 3)
        recorder.changed([Self.step(4, "a", 1), Self.step(5, "a/b", 2)])
        recorder.changed([Self.step(6, "c", 3)])
        recorder.rulesChanged(in: Self.snapshot(7))
        #expect(tree.catchUp() == 3 && tree.seq == 7)
        #expect(tree.root[Path(splitting: "a/b")] == .int(2) && tree.root[Path(splitting: "c")] == .int(3))
        #expect(tree.catchUp() == 0 && tree.seq == 7, "once")
    }

    @Test(arguments: [false, true])
    func aWayThatIsNotKnownIsNotGone(ends: Bool) {
        let recorder = PackingRecorder(mostBytes: 1 << 20)
        var tree = PackedTree(.null, seq: 3, recorder, leftBytes: 0)
        recorder.changed([Self.step(4, "a", 1)])
        if ends { recorder.ended() } else { recorder.reset(to: Self.snapshot(9)) }
        recorder.rulesChanged(in: Self.snapshot(9))
        recorder.changed([Self.step(10, "a", 2)])
        #expect(tree.catchUp() == nil && tree.seq == 3)
        #expect(tree.catchUp() == nil, "nor later")
    }

    /// Large values to one path, of which the tree has the last: what is kept of them is bounded.
    @Test func whatIsTooMuchIsNotKept() {
        let recorder = PackingRecorder(mostBytes: 10_000)
        var tree = PackedTree(.null, seq: 3, recorder, leftBytes: 0)
        for seq in 4..<10 { recorder.changed([Self.step(Int64(seq), "a", Int64(seq))]) }
        #expect(tree.catchUp() == 6)
        for seq in 10..<14 as Range<Int64> {
            recorder.changed([Self.step(seq, "a", .string(String(repeating: "x", count: 3_000)))])
        }
        #expect(tree.catchUp() == nil)
    }

    private static func step(_ seq: Int64, _ path: String, _ value: Int64) -> Step { step(seq, path, .int(value)) }

    private static func step(_ seq: Int64, _ path: String, _ value: Node) -> Step {
        let change = Change(path: Path(splitting: path), value: value)
        return Step(
            entry: Entry(seq: seq, committedAt: 0, operation: .set, path: change.path, changes: [change]),
            before: .null,
            after: .null)
    }

    private static func snapshot(_ seq: Int64) -> Snapshot {
        Snapshot(seq: seq, root: .null, rules: RulesVersion(seq: 0, set: .denyAll))
    }
}
