import TestSupport
import Testing

@testable import Feeds

/// Checks that no message of a key is sent before the previous one has arrived.
@Suite struct KeyQueuesTests {
    private func messages(_ keys: [String]) -> [SinkMessage] {
        keys.enumerated().map { .order($0.offset, key: $0.element) }
    }

    @Test func keysGoSideBySide() {
        var readers = KeyQueues(messages(["a", "b", "a", "b", "a"]), isSequential: false)
        #expect(readers.firsts == [0, 1])
        #expect(readers.settle(1, .delivered, hasTime: true) == 3)
        #expect(readers.settle(0, .delivered, hasTime: true) == 2)
        #expect(readers.settle(2, .delivered, hasTime: true) == 4)
        #expect(readers.settle(4, .delivered, hasTime: true) == nil)
        #expect(readers.settled == nil)
        #expect(readers.settle(3, .delivered, hasTime: true) == nil)
        #expect(readers.settled == Array(repeating: .delivered, count: 5))
    }

    @Test func oneQueueHoldsAllKeys() {
        var readers = KeyQueues(messages(["a", "b", "c"]), isSequential: true)
        #expect(readers.firsts == [0])
        #expect(readers.settle(0, .delivered, hasTime: true) == 1)
        #expect(readers.settle(1, .failed(reason: "away", retryAfterMilliseconds: 7), hasTime: true) == nil)
        #expect(
            readers.settled == [
                .delivered, .failed(reason: "away", retryAfterMilliseconds: 7),
                .notSent,
            ])
    }

    @Test func aRefusalEndsItsQueueOnly() {
        var readers = KeyQueues(messages(["a", "a", "b"]), isSequential: false)
        #expect(readers.settle(0, .refused(reason: "too large"), hasTime: true) == nil)
        #expect(readers.settle(2, .delivered, hasTime: true) == nil)
        #expect(
            readers.settled == [
                .refused(reason: "too large"),
                .notSent, .delivered,
            ])
    }

    @Test func withoutTimeTheRestWaits() {
        var readers = KeyQueues(messages(["a", "a", "a"]), isSequential: false)
        #expect(readers.settle(0, .delivered, hasTime: false) == nil)
        let outcomes = readers.settled
        #expect(outcomes?.first == .delivered)
        #expect(outcomes?.dropFirst().allSatisfy { $0 == .notSent } == true)
    }

    @Test func noMessagesAreSettled() {
        #expect(KeyQueues([], isSequential: false).settled == [])
    }

    /// Checks random keys, orders of answers and outcomes.
    @Test(arguments: 0..<100)
    func orderHolds(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let keys = (0..<random.below(30)).map { _ in "k\(random.below(5))" }
        let isSequential = random.oneIn(4)
        let messages = messages(keys)
        var readers = KeyQueues(messages, isSequential: isSequential)
        var inFlight = readers.firsts
        var arrived: Set<Int> = []
        var sent: Set<Int> = Set(inFlight)
        while !inFlight.isEmpty {
            #expect(readers.settled == nil)
            let index = inFlight.remove(at: random.below(inFlight.count))
            let outcome: SinkOutcome =
                random.oneIn(6)
                ? .failed(reason: "r", retryAfterMilliseconds: nil)
                : random.oneIn(8) ? .refused(reason: "r") : .delivered
            if outcome == .delivered { arrived.insert(index) }
            if let next = readers.settle(index, outcome, hasTime: !random.oneIn(10)) {
                #expect(sent.insert(next).inserted, "sent twice")
                inFlight.append(next)
            }
        }
        let outcomes = readers.settled
        #expect(outcomes?.count == messages.count)
        for (index, outcome) in (outcomes ?? []).enumerated() {
            #expect((outcome == .delivered) == arrived.contains(index))
            // Earlier messages of its sequence arrived before it was sent.
            guard sent.contains(index) else { continue }
            for earlier in 0..<index where isSequential || keys[earlier] == keys[index] {
                #expect(arrived.contains(earlier), "\(earlier) before \(index)")
            }
        }
    }
}
