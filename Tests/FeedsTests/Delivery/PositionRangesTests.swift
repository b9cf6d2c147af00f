import LogStore
import TestSupport
import Testing

@testable import Feeds

/// Tests of the stored form of the positions that are done after the feed's position.
@Suite struct PositionRangesTests {
    @Test func anyRangesComeBack() throws {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<500 {
            var positions: Set<FeedPosition> = []
            for _ in 0..<(2 * random.below(12)) {
                let seq = random.oneIn(9) ? Int64.max / 2 - Int64(random.below(3)) : Int64(random.below(40))
                let index = random.oneIn(9) ? Int64.max >> 1 : Int64(random.below(300))
                positions.insert(FeedPosition(seq: seq, index: index, isSnapshot: random.oneIn(3)))
            }
            let ends = positions.sorted()
            let ranges = try #require(
                PositionRanges(stride(from: 0, to: ends.count / 2 * 2, by: 2).map { ends[$0]...ends[$0 + 1] }))
            #expect(PositionRanges(bytes: ranges.bytes) == ranges)
            for position in positions {
                #expect(ranges.contains(position) == ranges.ranges.contains { $0.contains(position) })
            }
        }
    }

    /// Checks that ranges that cannot be encoded are refused without a trap.
    @Test func otherRangesAreNone() {
        func position(_ seq: Int64, _ index: Int64 = 0) -> FeedPosition { FeedPosition(seq: seq, index: index) }
        #expect(PositionRanges([position(5)...position(6), position(3)...position(4)]) == nil)
        #expect(PositionRanges([position(3)...position(5), position(5)...position(6)]) == nil)
        #expect(PositionRanges([position(-1)...position(2)]) == nil)
        #expect(PositionRanges([position(1, -2)...position(1, -1)]) == nil)
        #expect(PositionRanges([position(1)...position(.max)]) == nil)
        #expect(PositionRanges([position(1)...position(1, .max)]) == nil)
        #expect(PositionRanges([position(3)...position(4), position(4, 1)...position(6)])?.bytes.isEmpty == false)
    }

    /// Checks that arbitrary bytes are refused or decode to ranges that encode to the same bytes.
    @Test func anyBytesAreRefusedOrStable() {
        var random = SeededGenerator(seed: 6)
        for _ in 0..<20_000 {
            let bytes = (0..<random.below(24)).map { _ in
                random.oneIn(3) ? UInt8(0x80 | random.below(128)) : UInt8(random.below(5))
            }
            guard let ranges = PositionRanges(bytes: bytes) else { continue }
            #expect(PositionRanges(bytes: ranges.bytes) == ranges)
            for (first, second) in zip(ranges.ranges, ranges.ranges.dropFirst()) {
                #expect(first.upperBound < second.lowerBound)
            }
        }
    }
}

/// Tests of the ids of messages.
@Suite struct FeedPositionTests {
    @Test func idsReadAsWhatTheyWereMadeOf() {
        for seq in [0, 1, 42, Int64.max / 2] {
            for index in [0, 7, Int64.max / 2] {
                for isSnapshot in [false, true] {
                    let position = FeedPosition(seq: seq, index: index, isSnapshot: isSnapshot)
                    #expect(FeedPosition(id: position.id(in: "default"), in: "default") == position)
                    #expect(FeedPosition(id: position.id(in: "other"), in: "default") == nil)
                }
            }
        }
    }

    @Test func idsOfEventsReadAsWhatTheyWereMadeOf() {
        let position = FeedPosition(seq: 42, index: 7, isSnapshot: true)
        for id in [FeedEventID(position), FeedEventID(position, delivery: 0), FeedEventID(position, delivery: .max)] {
            #expect(FeedEventID(id.text(in: "default"), in: "default") == id)
            #expect(FeedEventID(id.text(in: "other"), in: "default") == nil)
        }
        #expect(FeedEventID(position, delivery: 31).text(in: "default") == "default:42:s7@1f")
    }

    @Test(arguments: [
        "default:1:2@", "default:1:2@01", "default:1:2@+1", "default:1:2@-1", "default:1:2@1F", "default:1:2@1@1",
        "default:1:2@10000000000000000", "default:1:2@g", "default:1@1", "@1", "default:1:2 @1",
    ])
    func otherIDsOfEvents(_ text: String) { #expect(FeedEventID(text, in: "default") == nil) }

    @Test(arguments: [
        "", "default", "default:1", "default:1:", "default::1", "default:1:2:3", "default:01:2", "default:1:02",
        "default:1:s", "default:1:S2", "default:1:ss2", "default:-1:2", "default:+1:2", "default:1:-2", "default:1: 2",
        "default:9223372036854775808:0", "default:0:9223372036854775807", "default:9223372036854775807:0",
        "default:4611686018427387904:0", "default:0:s4611686018427387904", "default:1:s2 ", "default:１:2",
    ])
    func otherTextsAreNone(_ text: String) { #expect(FeedPosition(id: text, in: "default") == nil) }

    @Test func messagesOfASnapshotFollowThoseOfItsEntry() {
        let inOrder = [
            FeedPosition(seq: 1, index: 9), FeedPosition(seq: 2, index: 0), FeedPosition(seq: 2, index: 1),
            FeedPosition(seq: 2, index: 0, isSnapshot: true), FeedPosition(seq: 2, index: 1, isSnapshot: true),
            FeedPosition(seq: 3, index: 0),
        ]
        #expect(inOrder.reversed().sorted() == inOrder)
    }
}

/// Tests of the machine's queues against plain arrays.
@Suite struct QueueTests {
    @Test func slotsComeInOrder() {
        var random = SeededGenerator(seed: 7)
        var queue = SlotQueue()
        var model: [Int] = []
        let message = FeedMessage(position: FeedPosition(seq: 1, index: 0), key: "a", content: .stored([]))
        for step in 0..<20_000 {
            switch random.below(7) {
            case 0...2:
                let number = random.oneIn(3) ? random.below(step + 1) : step
                guard !model.contains(number) else { continue }
                queue.insert(FeedMachine.Slot(message, number: number, isRetry: false))
                model.append(number)
                model.sort()
            case 3 where random.oneIn(50):
                let gone = queue.keep { $0.number % 3 != 0 }
                #expect(gone.map(\.number) == model.filter { $0 % 3 == 0 })
                model.removeAll { $0 % 3 == 0 }
            default:
                #expect(queue.popFirst()?.number == model.first)
                if !model.isEmpty { model.removeFirst() }
            }
            #expect(queue.count == model.count && queue.first?.number == model.first && queue.isEmpty == model.isEmpty)
        }
        queue.removeAll()
        #expect(queue.isEmpty && queue.popFirst() == nil)
    }

    @Test func timersAreTakenWhenTheyAreDue() {
        var random = SeededGenerator(seed: 8)
        var heap = TimerHeap<Int>()
        var model: [Int64] = []
        for now in 0..<Int64(3_000) {
            for _ in 0..<random.below(4) {
                let time = now + Int64(random.below(60)) - 5
                heap.add(Int(time), at: time)
                model.append(time)
            }
            #expect(heap.earliest == model.min())
            var taken: [Int64] = []
            while let (time, item) = heap.take(by: now) {
                #expect(Int(time) == item)
                taken.append(time)
            }
            #expect(taken == model.filter { $0 <= now }.sorted())
            model.removeAll { $0 <= now }
        }
    }
}
