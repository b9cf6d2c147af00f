import LogStore
import TestSupport
import Testing

@testable import Feeds

/// Checks the tracking of done positions against a plain list, and that no other operation marks a position as done.
@Suite struct DonePositionsTests {
    private func position(_ seq: Int64, _ index: Int64 = 0) -> FeedPosition { FeedPosition(seq: seq, index: index) }

    private func cause(_ body: () throws(FeedInvariantError) -> Void) -> FeedInvariantError.Cause? {
        do throws(FeedInvariantError) {
            try body()
            return nil
        } catch {
            return error.cause
        }
    }

    /// Checks that messages can be closed in any order, and that a new start continues from the recorded progress.
    @Test func anyOrderOfClosing() throws {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<300 {
            var tracker = DonePositions(from: FeedProgress(seq: 0))
            var open: [OpenPosition] = []
            var done: [FeedPosition: Bool] = [:]
            // An entry has the same messages whenever it is read.
            let counts = (0..<130).map { _ in Int64(random.below(4)) }
            defer { tracker.removeAll() }
            var seq: Int64 = 0
            for _ in 0..<random.below(120) {
                switch random.below(5) {
                case 0, 1:
                    seq += 1
                    for index in 0..<counts[Int(seq)] {
                        let next = OpenPosition(position(seq, index))
                        let isOpen = try tracker.open(next)
                        #expect(isOpen == (done[next.position] == nil))
                        if isOpen { open.append(next) }
                        done[next.position] = !isOpen
                    }
                    _ = tracker.read(to: LogPosition(seq: seq))
                case 2 where !open.isEmpty, 3 where !open.isEmpty:
                    let closed = open.remove(at: random.below(open.count))
                    try tracker.close(closed)
                    done[closed.position] = true
                default:
                    let progress = try tracker.progress(handedTo: seq, held: open.count).progress
                    for (position, isDone) in done { #expect(progress.isDone(position) == isDone, "\(position)") }
                    #expect(tracker.first == open.map(\.position).min())
                    guard random.oneIn(4) else { continue }
                    // A new owner starts from the progress, and reads messages that are not done again.
                    tracker.removeAll()
                    open = []
                    done = done.filter { $0.value }
                    tracker = DonePositions(from: progress)
                    seq = progress.seq
                }
            }
        }
    }

    @Test func whatIsOutOfOrderIsRefused() throws {
        var tracker = DonePositions(from: FeedProgress(seq: 0))
        defer { tracker.removeAll() }
        let kept = OpenPosition(position(2, 1))
        let isOpen = try tracker.open(kept)
        #expect(isOpen)
        for position in [position(2, 1), position(2, 0), position(1, 5)] {
            let refused = cause { () throws(FeedInvariantError) in _ = try tracker.open(OpenPosition(position)) }
            #expect(refused == .outOfOrder(position, after: kept.position))
        }
        let again = cause { () throws(FeedInvariantError) in _ = try tracker.open(kept) }
        #expect(again == .alreadyOpen(kept.position))
        let isNews = tracker.read(to: LogPosition(seq: 4))
        #expect(isNews)
        let late = cause { () throws(FeedInvariantError) in _ = try tracker.open(OpenPosition(position(4, 9))) }
        #expect(late == .outOfOrder(position(4, 9), after: position(5)))
        // The errors have changed nothing.
        #expect(tracker.count == 1 && tracker.first == kept.position)
        let progress = try tracker.progress(handedTo: 4, held: 1).progress
        #expect(progress.seq == 1 && progress.index == 1 && progress.done.ranges.isEmpty)
    }

    @Test func whatIsNotOpenIsNotClosed() throws {
        var tracker = DonePositions(from: FeedProgress(seq: 0))
        defer { tracker.removeAll() }
        let first = OpenPosition(position(1))
        let second = OpenPosition(position(2))
        let unopened = cause { () throws(FeedInvariantError) in try tracker.close(first) }
        #expect(unopened == .notOpen(position(1)))
        for position in [first, second] { _ = try tracker.open(position) }
        try tracker.close(second)
        let twice = cause { () throws(FeedInvariantError) in try tracker.close(second) }
        #expect(twice == .notOpen(position(2)))
        let miscounted = cause { () throws(FeedInvariantError) in _ = try tracker.progress(handedTo: 2, held: 2) }
        #expect(miscounted == .miscounted(open: 1, held: 2))
        let progress = try tracker.progress(handedTo: 2, held: 1).progress
        #expect(!progress.isDone(position(1)))
    }

    /// Checks that a position that was not opened is accepted only for a stored message.
    @Test func onlyWhatIsStoredPasses() throws {
        var tracker = DonePositions(from: FeedProgress(seq: 0))
        defer { tracker.removeAll() }
        func slot(_ position: FeedPosition, isRetry: Bool) -> FeedMachine.Slot {
            FeedMachine.Slot(
                FeedMessage(position: position, key: "a", content: .stored([])), number: 0, isRetry: isRetry)
        }
        let waiting = slot(position(1), isRetry: false)
        let passed = cause { () throws(FeedInvariantError) in try tracker.pass(waiting) }
        #expect(passed == .alreadyOpen(position(1)))
        _ = try tracker.open(waiting)
        try tracker.pass(slot(position(2), isRetry: true))
        let progress = try tracker.progress(handedTo: 2, held: 1).progress
        #expect(!progress.isDone(position(1)) && progress.isDone(position(2)))
    }
}

/// Tests of a machine whose invariants are violated.
@Suite struct MachineFaultTests {
    private let now = FeedMachine.Moment(monotonic: 0, unix: 0)

    private func message(_ seq: Int64) -> FeedMessage {
        FeedMessage(position: FeedPosition(seq: seq, index: 0), key: "k\(seq)", content: .stored(Array("{}".utf8)))
    }

    private func machine(_ seqs: ClosedRange<Int64>) -> FeedMachine {
        var settings = FeedMachine.Settings()
        settings.namespace = "test"
        let machine = FeedMachine(settings, from: FeedProgress(seq: 0, handedTo: 100))
        for seq in seqs { machine.push(message(seq), now: now) }
        machine.read(to: LogPosition(seq: seqs.upperBound))
        return machine
    }

    /// Checks that a second reader that adds all messages again causes a fault, and that no message is recorded as
    /// done.
    @Test(arguments: [[], [2], [1, 3]] as [[Int64]]) func aSecondReading(_ acknowledged: [Int64]) throws {
        let machine = machine(1...5)
        #expect(machine.pull(5, by: "c", now: now).count == 5)
        for seq in acknowledged {
            #expect(machine.acknowledge(FeedPosition(seq: seq, index: 0), by: "c") == .done)
        }
        let before = try #require(machine.takeProgress()).progress
        for seq in 1...5 as ClosedRange<Int64> {
            #expect(before.isDone(FeedPosition(seq: seq, index: 0)) == acknowledged.contains(seq))
        }
        machine.push(message(1), now: now)
        let position = message(1).position
        let expected: FeedInvariantError.Cause =
            acknowledged.contains(1) ? .outOfOrder(position, after: message(5).position) : .alreadyOpen(position)
        #expect(machine.fault?.cause == expected)
        #expect(machine.takeProgress() == nil && machine.takeProgress(isLast: true) == nil)
    }

    @Test func nothingIsHandedOutAfterAFault() throws {
        let machine = machine(1...5)
        machine.push(message(3), now: now)
        let fault = try #require(machine.fault)
        #expect(!machine.hasReady && machine.pull(5, by: "c", now: now).isEmpty)
        machine.push(message(6), now: now)
        #expect(machine.slots.count == 5 && machine.fault == fault)
        // The fault states its cause and the remedy.
        #expect("\(fault)".contains("message 3:0 was read twice") && "\(fault)".contains("seek the feed"))
    }
}
