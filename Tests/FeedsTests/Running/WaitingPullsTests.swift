import Runtime
import TestSupport
import Testing

@testable import Feeds

/// Tests of the queue of pulls that wait for messages of one feed.
@Suite struct WaitingPullsTests {
    private func waiting(
        _ id: UInt64, _ consumer: String = "c", mostHeld: Int? = nil, deadline: Milliseconds = 1_000
    ) -> WaitingPulls.Waiting {
        WaitingPulls.Waiting(
            pull: FeedPull(
                id: id, feed: FeedName(namespace: "n", name: "f"), consumer: consumer, most: 10, mostHeld: mostHeld,
                deadline: deadline), hasSeat: true
        ) { _ in }
    }

    /// Removes all pulls that can be served. Returns their ids in order.
    private func drain(_ pulls: inout WaitingPulls) -> [UInt64] {
        var ids: [UInt64] = []
        while let pull = pulls.first, pulls.take(pull.id) != nil { ids.append(pull.id) }
        return ids
    }

    @Test func firstComeFirstServed() {
        var pulls = WaitingPulls()
        for id in [3, 1, 2] as [UInt64] { pulls.add(waiting(id)) }
        #expect(pulls.remove(1) { _ in 0 }?.pull.id == 1)
        #expect(pulls.remove(1) { _ in 0 } == nil)
        #expect(pulls.nextDeadline == 1_000)
        #expect(drain(&pulls) == [3, 2])
        #expect(pulls.isEmpty && pulls.nextDeadline == nil)
    }

    @Test func deadlinesCome() {
        var pulls = WaitingPulls()
        pulls.add(waiting(1, deadline: 30))
        pulls.add(waiting(2, deadline: 10))
        pulls.add(waiting(3, deadline: 20))
        #expect(pulls.nextDeadline == 10)
        #expect(pulls.expire(at: 20) { _ in 0 }.map(\.pull.id) == [2, 3])
        #expect(drain(&pulls) == [1])
    }

    /// Checks that pulls that cannot be served do not delay others, however many there are.
    @Test func parkedOnesAreNotLookedAt() {
        var pulls = WaitingPulls()
        for id in 1...5_000 as ClosedRange<UInt64> { pulls.add(waiting(id, "full", mostHeld: 1)) }
        for id in 1...5_000 as ClosedRange<UInt64> { pulls.park(id) }
        pulls.add(waiting(6_000, "other"))
        #expect(pulls.countInLine == 1 && pulls.first?.id == 6_000 && pulls.count == 5_001)
        // The consumer still holds as many messages as it may.
        pulls.wake("full", holding: 1)
        #expect(pulls.countInLine == 1)
        // One message less allows one pull.
        pulls.wake("full", holding: 0)
        #expect(pulls.countInLine == 2 && pulls.first?.id == 1)
    }

    @Test func aWokenPullThatLeavesWakesTheNext() {
        var pulls = WaitingPulls()
        for id in 1...3 as ClosedRange<UInt64> {
            pulls.add(waiting(id, mostHeld: 1))
            pulls.park(id)
        }
        pulls.wake("c", holding: 0)
        #expect(pulls.first?.id == 1)
        _ = pulls.remove(1) { _ in 0 }
        #expect(pulls.first?.id == 2)
        #expect(pulls.expire(at: 5_000) { _ in 0 }.count == 2)
        #expect(pulls.isEmpty && !pulls.hasParked && pulls.first == nil)
    }

    /// Checks that pulls with a higher limit come first, because only they can be served.
    @Test func pullsOfOneConsumerWithOtherLimits() {
        var pulls = WaitingPulls()
        pulls.add(waiting(1, mostHeld: 2))
        pulls.add(waiting(2, mostHeld: 5))
        for id in [1, 2] as [UInt64] { pulls.park(id) }
        pulls.wake("c", holding: 4)
        pulls.wake("c", holding: 4)
        #expect(pulls.countInLine == 1 && pulls.first?.id == 2)
        pulls.wake("c", holding: 1)
        #expect(pulls.countInLine == 2)
    }

    /// Checks the queue against a list that is scanned: the same pulls, in the same order.
    @Test(arguments: 0..<8 as Range<UInt64>) func anyHistory(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var pulls = WaitingPulls()
        var model: [(id: UInt64, deadline: Milliseconds)] = []
        var now: Milliseconds = 0
        for id in 1...2_000 as ClosedRange<UInt64> {
            switch random.below(5) {
            case 0, 1:
                let deadline = now + Milliseconds(random.below(50))
                pulls.add(waiting(id, "c\(random.below(3))", mostHeld: 1 + random.below(3), deadline: deadline))
                model.append((id, deadline))
            case 2:
                guard !model.isEmpty else { continue }
                let index = random.below(model.count)
                #expect(pulls.remove(model[index].id) { _ in 0 }?.pull.id == model[index].id)
                model.remove(at: index)
            case 3:
                // A pull that is parked and woken immediately keeps its position.
                guard let first = pulls.first else { continue }
                pulls.park(first.id)
                pulls.wake(first.consumer, holding: 0)
            default:
                now += Milliseconds(random.below(20))
                let over = Set(pulls.expire(at: now) { _ in 0 }.map(\.pull.id))
                #expect(over == Set(model.filter { $0.deadline <= now }.map(\.id)))
                model.removeAll { $0.deadline <= now }
            }
            #expect(pulls.count == model.count && pulls.first?.id == model.first?.id)
        }
        #expect(pulls.removeAll().map(\.pull.id) == model.map(\.id))
    }
}
