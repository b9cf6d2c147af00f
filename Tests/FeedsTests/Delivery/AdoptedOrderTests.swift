import LogStore
import Testing

@testable import Feeds

/// Tests of the order of a key's messages that a former owner may have delivered.
@Suite struct AdoptedOrderTests {
    private let now = FeedMachine.Moment(monotonic: 0, unix: 0)

    private func position(_ seq: Int64) -> FeedPosition { FeedPosition(seq: seq, index: 0, isSnapshot: false) }

    private func push(_ seq: Int64, to machine: FeedMachine) {
        machine.push(
            FeedMessage(position: position(seq), key: "k", content: .stored(Array("{}".utf8))), now: now)
    }

    /// Checks that an acknowledgement of a message after a failed one of its key does not count, whether the reader
    /// adds the later message before or after the failure.
    @Test(arguments: [false, true]) func nothingOvertakesAMessageThatFailed(isBroughtFirst: Bool) {
        let machine = FeedMachine(
            FeedMachine.Settings(), from: FeedProgress(seq: 0, handedTo: 3), adoptedThrough: 3, adoptedUntil: 1_000)
        push(1, to: machine)
        if isBroughtFirst { push(2, to: machine) }
        #expect(machine.reject(position(1), by: "c", after: 0, reason: "no", now: now) == .done)
        if !isBroughtFirst { push(2, to: machine) }
        #expect(machine.acknowledge(position(2), by: "c") != .done)
        #expect(machine.pull(5, by: "c", now: now).map(\.message.position.seq) == [1, 2])
    }

    /// Checks that a run that returns a message delivers this and later messages of its key itself, and that the next
    /// run counts their outcomes.
    @Test func aNoteConcernsOnlyEarlierDeliveries() {
        let second = runThatHasTheFirstOfTwoBack()
        push(2, to: second)
        #expect(second.acknowledge(position(2), by: "c") == .expired)
        #expect(second.pull(5, by: "c", now: now).map(\.message.position.seq) == [1, 2])
        let third = machine(after: second)
        push(1, to: third)
        push(2, to: third)
        #expect(third.acknowledge(position(1), by: "c") == .done)
        #expect(third.acknowledge(position(2), by: "c") == .done)
    }

    /// Checks that a note applies to deliveries before it, however often the definition changes.
    @Test func aNoteIsInheritedByEveryLaterRun() {
        let third = machine(after: runThatHasTheFirstOfTwoBack())
        push(1, to: third)
        push(2, to: third)
        #expect(third.acknowledge(position(2), by: "c") == .expired)
        #expect(third.pull(5, by: "c", now: now).map(\.message.position.seq) == [1, 2])
    }

    /// Checks that nothing is passed to the next run once all deliveries of former runs have ended, even if their
    /// messages were not read again.
    @Test func whatIsKnownOfFormerDeliveriesEndsWithThem() {
        let second = runThatHasTheFirstOfTwoBack()
        #expect(second.adoptedPositions == [position(2)])
        #expect(second.formerDeliveries.count == 1)
        #expect(!second.overtaken.isEmpty)
        second.advance(to: FeedMachine.Moment(monotonic: 1_000, unix: 1_000))
        #expect(second.adoptedPositions == [])
        #expect(second.formerDeliveries.isEmpty)
        #expect(second.overtaken.isEmpty)
    }

    /// The second run of a feed whose first run delivered two messages of a key. The first message was returned.
    /// The second is outstanding, and has not been read again.
    private func runThatHasTheFirstOfTwoBack() -> FeedMachine {
        let former = machine(after: nil)
        for seq: Int64 in 1...2 { push(seq, to: former) }
        #expect(former.pull(5, by: "c", now: now).map(\.message.position.seq) == [1, 2])
        let second = machine(after: former)
        push(1, to: second)
        #expect(second.reject(position(1), by: "c", after: 0, reason: "no", now: now) == .done)
        return second
    }

    private func machine(after former: FeedMachine?) -> FeedMachine {
        let machine = FeedMachine(
            FeedMachine.Settings(), from: FeedProgress(seq: 0, handedTo: 3), adoptedThrough: former == nil ? 0 : 3,
            adoptedUntil: 1_000, firstDelivery: former.map { $0.firstDelivery + 1 << 32 } ?? 0)
        guard let former else { return machine }
        machine.adoptedPositions = former.heldPositions.union(former.adoptedPositions ?? [])
        machine.adoptedKeys = former.heldKeys
        machine.overtaken = former.overtaken
        machine.formerDeliveries = former.heldDeliveries
        return machine
    }
}
