import LogStore
import Testing

@testable import Feeds

/// The order of a key's messages that a former owner may have handed out.
@Suite struct AdoptedOrderTests {
    private let now = FeedMachine.Moment(monotonic: 0, unix: 0)

    private func position(_ seq: Int64) -> FeedPosition { FeedPosition(seq: seq, index: 0, isSnapshot: false) }

    private func push(_ seq: Int64, to machine: FeedMachine) {
        machine.push(
            FeedMessage(position: position(seq), key: "k", content: .stored(Array("{}".utf8))), now: now)
    }

    /// The reader may bring the later message before or after the earlier one fails: its acknowledgement counts in neither case.
    @Test(arguments: [false, true]) func nothingOvertakesAMessageThatFailed(isBroughtFirst: Bool) {
        let machine = FeedMachine(
            FeedMachine.Settings(), from: FeedProgress(seq: 0, handedTo: 3), adoptedThrough: 3, adoptedUntil: 1_000)
        push(1, to: machine)
        if isBroughtFirst { push(2, to: machine) }
        #expect(machine.reject(position(1), by: "c", after: 0, reason: "no", now: now) == .done)
        if !isBroughtFirst { push(2, to: machine) }
        #expect(machine.acknowledge(position(2), by: "c") == .expired)
        #expect(machine.pull(5, by: "c", now: now).map(\.message.position.seq) == [1, 2])
    }
}
