import Engine
import Testing
import Tree

@testable import Gateway

/// A class around the queue, because `#expect` cannot call mutating methods.
private final class Line {
    private var queue = TransactionTurns()

    var isEmpty: Bool { queue.isEmpty }

    func arrival(_ session: String, mayWait: Bool, at now: Int64) -> TransactionTurns.Arrival {
        queue.arrives(session, mayWait: mayWait, at: now)
    }
    func arrives(_ session: String, mayWait: Bool, at now: Int64) -> Bool {
        arrival(session, mayWait: mayWait, at: now) == .isSent
    }
    func sendsEarly(_ session: String) { queue.sendsEarly(session) }
    func wasRefused(_ session: String, at now: Int64) -> TransactionTurns.Outcome { queue.wasRefused(session, at: now) }
    func leaves(_ session: String, at now: Int64) -> TransactionTurns.Outcome { queue.leaves(session, at: now) }
    func asks(_ remote: String, at now: Int64) -> TransactionTurns.Outcome { queue.asks(remote, at: now) }
    func check(_ slot: TransactionTurns.Slot, patience: Int64, at now: Int64) -> TransactionTurns.Check {
        queue.check(slot, patience: patience, at: now)
    }
}

@Suite struct TransactionTurnsTests {
    private typealias Outcome = TransactionTurns.Outcome
    private let queue = Line()

    private func slot(_ session: String, _ ticket: UInt64, isRemote: Bool = false) -> TransactionTurns.Slot {
        TransactionTurns.Slot(session: session, ticket: ticket, isRemote: isRemote)
    }

    @Test func noWaitWithoutAFailure() {
        #expect(queue.arrives("a", mayWait: true, at: 0))
        #expect(queue.arrives("b", mayWait: true, at: 0))
        #expect(queue.isEmpty)
        #expect(queue.leaves("a", at: 1) == Outcome())
    }

    @Test func slotsGoRoundInOrder() {
        #expect(queue.wasRefused("a", at: 0) == Outcome(next: slot("a", 1)))
        #expect(queue.wasRefused("b", at: 0) == Outcome())
        #expect(!queue.arrives("c", mayWait: true, at: 0))
        #expect(!queue.arrives("b", mayWait: true, at: 0))
        #expect(queue.arrives("a", mayWait: true, at: 0))
        #expect(queue.leaves("a", at: 1) == Outcome(next: slot("b", 2)))
        #expect(queue.leaves("b", at: 2) == Outcome(next: slot("c", 3)))
        // The client queues again, after the other clients.
        #expect(!queue.arrives("a", mayWait: true, at: 3))
        #expect(queue.leaves("c", at: 4) == Outcome(next: slot("a", 4)))
        #expect(queue.leaves("a", at: 5) == Outcome())
        #expect(queue.isEmpty)
    }

    @Test func aSessionThatMayNotWaitSendsAndKeepsItsSlot() {
        _ = queue.wasRefused("a", at: 0)
        #expect(!queue.arrives("b", mayWait: true, at: 0))
        queue.sendsEarly("b")
        #expect(queue.wasRefused("b", at: 0) == Outcome())
        #expect(!queue.arrives("c", mayWait: true, at: 0))
        #expect(queue.arrives("d", mayWait: false, at: 0))
        #expect(queue.leaves("d", at: 0) == Outcome())
        #expect(queue.leaves("a", at: 1).next?.session == "b")
    }

    /// Checks that the requests of a client are held after a few refusals if they would send its transaction early.
    @Test func refusedClientsHoldTheirRequests() {
        _ = queue.wasRefused("a", at: 0)
        for refusal in 1..<TransactionTurns.refusalsBeforeHolding {
            #expect(queue.arrival("b", mayWait: true, at: 0) == .waits, "after \(refusal - 1) refusals")
            queue.sendsEarly("b")
            #expect(queue.wasRefused("b", at: 0) == Outcome())
        }
        #expect(queue.arrival("b", mayWait: false, at: 0) == .isSent)
        #expect(queue.wasRefused("b", at: 0) == Outcome())
        #expect(queue.arrival("b", mayWait: true, at: 0) == .holds)
        queue.sendsEarly("b")
        #expect(queue.wasRefused("b", at: 0) == Outcome())
        // Requests that already wait make no difference.
        #expect(queue.arrival("b", mayWait: false, at: 0) == .holds)
        // In its slot the client sends, and its next transaction starts with a refusal count of zero.
        #expect(queue.leaves("a", at: 1).next?.session == "b")
        #expect(queue.arrival("b", mayWait: false, at: 1) == .isSent)
        #expect(queue.arrival("c", mayWait: true, at: 1) == .waits)
        #expect(queue.leaves("b", at: 2).next?.session == "c")
        #expect(queue.arrival("b", mayWait: true, at: 3) == .waits)
    }

    @Test func sessionsThatLeaveFromTheMiddleAreSkipped() {
        _ = queue.wasRefused("a", at: 0)
        for session in ["b", "c", "d"] { _ = queue.arrives(session, mayWait: true, at: 0) }
        #expect(queue.leaves("b", at: 0) == Outcome())
        #expect(queue.leaves("c", at: 0) == Outcome())
        // The client gets a new position in the queue, not its old one.
        #expect(!queue.arrives("b", mayWait: true, at: 0))
        #expect(queue.leaves("a", at: 0).next?.session == "d")
        #expect(queue.leaves("d", at: 0).next?.session == "b")
    }

    @Test func aSlotEndsWithoutASign() {
        _ = queue.wasRefused("a", at: 0)
        _ = queue.arrives("b", mayWait: true, at: 10)
        let first = slot("a", 1)
        #expect(queue.check(first, patience: 100, at: 60) == .continues(40))
        _ = queue.arrives("a", mayWait: true, at: 90)
        #expect(queue.check(first, patience: 100, at: 100) == .continues(90))
        // The client's write is in flight.
        #expect(queue.check(first, patience: 100, at: 500) == .continues(100))
        _ = queue.wasRefused("a", at: 550)
        #expect(queue.check(first, patience: 100, at: 600) == .continues(50))
        #expect(queue.check(first, patience: 100, at: 650) == .expired(Outcome(next: slot("b", 2))))
        #expect(queue.check(first, patience: 100, at: 660) == .over)
    }

    @Test func aSlotOfFailuresEnds() {
        _ = queue.wasRefused("a", at: 0)
        _ = queue.arrives("b", mayWait: true, at: 0)
        var now: Int64 = 0
        while now < 800 {
            #expect(queue.check(slot("a", 1), patience: 100, at: now) != .over)
            _ = queue.arrives("a", mayWait: true, at: now)
            _ = queue.wasRefused("a", at: now)
            now += 10
        }
        #expect(
            queue.check(slot("a", 1), patience: 100, at: now) == .expired(Outcome(next: slot("b", 2), notice: .isDone)))
    }

    @Test func aFailureInASlotAsksOtherGateways() {
        _ = queue.wasRefused("a", at: 0)
        for _ in 1..<TransactionTurns.refusalsBeforeAsking { #expect(queue.wasRefused("a", at: 0) == Outcome()) }
        #expect(queue.wasRefused("a", at: 0) == Outcome(notice: .asks))
        #expect(queue.wasRefused("a", at: 0) == Outcome(notice: .asks))
        #expect(queue.leaves("a", at: 0) == Outcome(notice: .isDone))
        #expect(queue.wasRefused("a", at: 0) == Outcome(next: slot("a", 2)))
        #expect(queue.leaves("a", at: 0) == Outcome())
    }

    @Test func aGuestGoesNext() {
        _ = queue.wasRefused("a", at: 0)
        _ = queue.arrives("b", mayWait: true, at: 0)
        #expect(queue.asks("gateway 1", at: 0) == Outcome())
        #expect(queue.asks("gateway 1", at: 0) == Outcome())
        #expect(queue.leaves("a", at: 0) == Outcome(next: slot("gateway 1", 3, isRemote: true)))
        #expect(!queue.arrives("a", mayWait: true, at: 1))
        #expect(queue.check(slot("gateway 1", 3, isRemote: true), patience: 100, at: 50) == .continues(50))
        _ = queue.asks("gateway 1", at: 60)
        #expect(queue.check(slot("gateway 1", 3, isRemote: true), patience: 100, at: 100) == .continues(60))
        #expect(queue.leaves("gateway 1", at: 110) == Outcome(next: slot("b", 2)))
        // If there is no contention, the first client to arrive waits.
        let empty = Line()
        #expect(empty.asks("gateway 1", at: 0) == Outcome(next: slot("gateway 1", 1, isRemote: true)))
        #expect(!empty.arrives("a", mayWait: true, at: 1))
        #expect(empty.leaves("gateway 1", at: 2) == Outcome(next: slot("a", 2)))
    }

    /// Checks for random events that there is one slot at a time, that every client that stays gets one, and that the
    /// queue keeps nothing about clients that left.
    @Test(arguments: 0..<20) func everySessionHasASlot(seed: Int) {
        var state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1
        func dice(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        let queue = Line()
        var slots: [TransactionTurns.Slot] = []
        var inQueue: Set<String> = []
        func follow(_ outcome: Outcome) {
            if let next = outcome.next {
                #expect(inQueue.contains(next.session))
                slots.append(next)
            }
        }
        for step in 0..<2_000 {
            let session = "\(dice(12))"
            switch dice(4) {
            case 0:
                if !queue.arrives(session, mayWait: dice(4) > 0, at: Int64(step)), inQueue.insert(session).inserted {
                    #expect(!queue.isEmpty)
                }
            case 1:
                inQueue.insert(session)
                follow(queue.wasRefused(session, at: Int64(step)))
            case 2:
                inQueue.remove(session)
                follow(queue.leaves(session, at: Int64(step)))
            default:
                inQueue.insert("remote")
                follow(queue.asks("remote", at: Int64(step)))
            }
            #expect(queue.isEmpty == inQueue.isEmpty)
        }
        // Once no more clients arrive, each waiting client is served exactly once.
        var served: [String] = []
        while let slot = slots.last, inQueue.remove(slot.session) != nil {
            served.append(slot.session)
            follow(queue.leaves(slot.session, at: 9_999))
        }
        #expect(Set(served).count == served.count && inQueue.isEmpty && queue.isEmpty)
    }

    @Test func notices() {
        for path in ["/", "/a/b c/é", "/x y/ z "] {
            for kind in [TransactionTurns.Notice.asks, .isDone] {
                let notice = SlotNotice(
                    kind, TransactionKey(namespace: NamespaceKey(id: 7), path: Path(splitting: path)))
                #expect(SlotNotice(notice.text, in: 0) == notice)
            }
        }
        for text in ["", "turn", "turn asks 1", "turn asks x /", "turn wants 1 /", "other asks 1 /"] {
            #expect(SlotNotice(text, in: 0) == nil)
        }
    }
}
