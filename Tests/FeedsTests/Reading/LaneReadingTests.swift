import Engine
import LogStore
import Runtime
import TestSupport
import Testing
import Tree

@testable import Feeds

/// What a lane's trees take of memory when nobody takes its messages.
@Suite struct LaneReadingTests {
    private static let records = 20_000

    private static func tree(_ factor: Int64) -> Node {
        let records = (0..<records).map { number -> (Key, Node) in
            let fields = [
                (Key("n"), Node.int(Int64(number) * factor)), (Key("text"), .string("the record of number \(number)")),
            ]
            return (Key("r\(100_000 + number)"), Node(children: fields))
        }
        return Node(children: [(Key("a"), Node(children: records))])
    }

    private func withRoom(_ body: (PageFile, () -> any TreeRoom) throws -> Void) throws {
        let directory = TemporaryFolder.path("lanes")
        try TemporaryFolder.make(directory)
        defer { TemporaryFolder.remove(directory) }
        let logger = Logger(level: .error, descriptor: -1)
        let file = try PageFile(in: directory, mostBytes: 1 << 30, logger) { fatalError($0) }
        let budget = TreeBudget(bytes: 1 << 20, pages: file)
        try body(file) { budget.room { true } }
    }

    private func reading(_ lane: FeedLane) -> LaneReading {
        LaneReading(lane, LogFollower(1, at: lane.cursor), meter: nil, exchanges: 1)
    }

    /// All messages of a lane that takes some at a time; `meanwhile` is done once, after the first of them.
    private func messages(_ reading: LaneReading, meanwhile: (inout LaneReading) -> Void = { _ in }) -> [String] {
        var reading = reading
        var found: [FeedMessage] = []
        while let finding = reading.lane.goOn() {
            let isFirst = found.isEmpty
            found += finding.messages
            if isFirst { meanwhile(&reading) }
        }
        return LaneBench.texts(found)
    }

    /// A lane with a place behind the first of many messages, and all of these.
    private func check(_ lane: FeedLane, besides: Int = 0) throws {
        try withRoom { file, room in
            let whole = reading(lane)
            let wanted = messages(whole)
            #expect(wanted.count == Self.records)
            let before = lane.heapBytes
            let found = messages(whole) { reading in
                // As far as is known the gateway has the very same tree, or nearly so: nothing is done.
                let seq = reading.lane.newest.seq
                reading.grewOld(TreeStanding(seq: seq + 3, exchanges: 1), now: 10_000, in: room)
                #expect(file.usedBytes == 0)
                // It was looked at just now.
                reading.grewOld(TreeStanding(seq: seq + 900_000, exchanges: 2), now: 10_999, in: room)
                #expect(file.usedBytes == 0)
                // Now it has another one.
                reading.grewOld(TreeStanding(seq: seq + 3, exchanges: 2), now: 11_000, in: room)
                let used = file.usedBytes
                #expect(used > 1 << 18 && reading.lane.heapBytes < before / 8)
                reading.grewOld(nil, now: 20_000, in: room)
                #expect(file.usedBytes == used)
            }
            #expect(found == wanted)
        }
    }

    @Test func aSnapshotThatNobodyTakesLeavesMemory() throws {
        try check(
            FeedLane(
                try LaneBench.feed(1, "/a/{k}"), snapshot: Self.tree(1), at: LogCursor(seq: 3), from: 0, time: 1))
    }

    @Test func aWideEntryThatNobodyTakesLeavesMemory() throws {
        let (before, after) = (Self.tree(1), Self.tree(-1).replacing(Path(splitting: "a/r100000/n"), with: .int(7)))
        var lane = FeedLane([try LaneBench.feed(1, "/a/{k}")], root: before, at: LogCursor(seq: 3))
        var findings = lane.feeds.map { LaneFinding(claim: $0.claim) }
        let entry = Entry(
            seq: 4, committedAt: 4_000, operation: .load, path: .root, changes: [Change(path: .root, value: .null)],
            isBulk: true)
        let left = lane.pass(entry, at: LogCursor(seq: 4), after: after, places: nil, &findings)
        try #require(left.count == 1)
        // What was found at once comes before.
        let first = LaneBench.texts(lane.takePartial().flatMap(\.messages))
        #expect(first.count == 1_000)
        try withRoom { file, room in
            let whole = reading(left[0])
            let wanted = messages(whole)
            #expect(wanted.count == Self.records - 1_000)
            let found = messages(whole) { reading in
                let before = reading.lane.heapBytes
                reading.grewOld(TreeStanding(seq: 4, exchanges: 2), now: 10_000, in: room)
                #expect(file.usedBytes > 1 << 18 && reading.lane.heapBytes < before / 8)
            }
            #expect(found == wanted)
        }
    }

    /// Of few records an old tree shares all but what was written since.
    @Test func writesMakeAnOldTreeKeepMore() throws {
        try withRoom { file, room in
            var reading = reading(
                FeedLane([try LaneBench.feed(1, "/a/{k}")], root: Self.tree(1), at: LogCursor(seq: 3)))
            for seq in stride(from: 3, through: 30, by: 3) {
                reading.grewOld(
                    TreeStanding(seq: Int64(seq), exchanges: 1), now: Milliseconds(seq) * 1_000, in: room)
            }
            #expect(file.usedBytes == 0)
            // A megabyte is all that trees may take.
            reading.grewOld(TreeStanding(seq: 1_000, exchanges: 1), now: 100_000, in: room)
            #expect(file.usedBytes > 1 << 18)
            #expect(reading.lane.root == Self.tree(1))
        }
    }
}
