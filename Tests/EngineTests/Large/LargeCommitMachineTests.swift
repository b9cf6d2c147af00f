import LogStore
import Testing

@testable import Engine

/// Checks each rule of the machine of large writes as a script.
@Suite struct LargeCommitMachineTests {
    typealias Step = (event: LargeCommitMachine.Event, effect: LargeCommitMachine.Effect)

    struct Script: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let steps: [Step]

        init(_ name: String, _ parts: [Step]...) {
            testDescription = name
            steps = parts.flatMap(\.self)
        }
    }

    private static func ends(
        _ namespace: Int64, _ write: Int64, batches: (UInt8, UInt8)? = nil
    ) -> LargeCommitMachine.Ends {
        LargeCommitMachine.Ends(
            namespace: .init(seq: namespace, batch: [batches?.0 ?? UInt8(namespace)]),
            write: .init(seq: write, batch: [batches?.1 ?? UInt8(write)]))
    }

    private static func failed(isLost: Bool, at now: Int64 = 0, stops: Bool = false) -> LargeCommitMachine.Event {
        .failed(isConnectionLost: isLost, now: now, isStopping: stops)
    }

    /// The steps up to the COMMIT.
    private static let toCommit: [Step] = [
        (.followed, .lockHead), (.locked(head: 5, ends(5, 5)), .judge), (.judged(isAllowed: true), .commit),
    ]

    static let scripts: [Script] = [
        Script("committed", toCommit, [(.committed, .publish)]),
        Script("refused for the upstream's sake", toCommit, [(.refused, .giveUp)]),
        Script(
            "the write is behind",
            [
                (.followed, .lockHead), (.locked(head: 7, ends(7, 5)), .takeIn(after: 5)),
                (.tookIn(ends(7, 6)), .takeIn(after: 6)), (.tookIn(ends(7, 7)), .judge),
            ]),
        Script(
            "both are behind: from where the one is that is further behind",
            [
                (.followed, .lockHead), (.locked(head: 7, ends(6, 4)), .takeIn(after: 4)),
                (.tookIn(ends(6, 6)), .takeIn(after: 6)), (.tookIn(ends(7, 7)), .judge),
            ]),
        Script(
            "the namespace is behind",
            [(.followed, .lockHead), (.locked(head: 7, ends(6, 7)), .takeIn(after: 6)), (.tookIn(ends(7, 7)), .judge)]),
        Script(
            "an entry can't be taken in",
            [(.followed, .lockHead), (.locked(head: 7, ends(7, 5)), .takeIn(after: 5)), (.tookIn(nil), .prepareAgain)]),
        Script("the rules refuse it now", Array(toCommit.prefix(2)), [(.judged(isAllowed: false), .prepareAgain)]),
        Script(
            "the database has lost entries",
            [(.followed, .lockHead), (.locked(head: 4, ends(5, 5)), .prepareAgain)]),
        Script(
            "the database has lost entries that only the write has",
            [(.followed, .lockHead), (.locked(head: 4, ends(4, 5)), .prepareAgain)]),
        Script(
            "the entry at the head is another one than the write's",
            [(.followed, .lockHead), (.locked(head: 5, ends(5, 5, batches: (1, 2))), .prepareAgain)]),
        Script("the log can't be followed", [(failed(isLost: true), .giveUp)]),
        Script("the lock can't be had", [(.followed, .lockHead), (failed(isLost: false), .giveUp)]),
        Script(
            "the log can't be read under the lock",
            [
                (.followed, .lockHead), (.locked(head: 6, ends(5, 5)), .takeIn(after: 5)),
                (failed(isLost: true), .giveUp),
            ]),
        Script("the commit fails", toCommit, [(failed(isLost: false), .giveUp)]),
        Script(
            "lost, and in the log",
            toCommit,
            [
                (failed(isLost: true), .search), (.searched(isFound: true), .followFound), (.followed, .notify),
            ]),
        Script(
            "lost, and not in the log", toCommit,
            [(failed(isLost: true), .search), (.searched(isFound: false), .giveUp)]),
        Script(
            "the search fails, and is tried again until the patience ends",
            toCommit,
            [
                (failed(isLost: true, at: 10), .search), (failed(isLost: true), .dropConnection), (.done, .pause),
                (.waited(now: 11, isStopping: false), .search), (failed(isLost: false), .pause),
                (.waited(now: 109, isStopping: false), .search), (failed(isLost: false), .pause),
                (.waited(now: 110, isStopping: false), .outcomeUnknown),
            ]),
        Script(
            "the engine stops while it is searched for",
            toCommit,
            [
                (failed(isLost: true), .search), (failed(isLost: false), .pause),
                (.waited(now: 1, isStopping: true), .outcomeUnknown),
            ]),
        Script("lost while the engine stops", toCommit, [(failed(isLost: true, stops: true), .outcomeUnknown)]),
        Script(
            "what was found can't be followed yet",
            toCommit,
            [
                (failed(isLost: true), .search), (.searched(isFound: true), .followFound),
                (failed(isLost: true), .dropConnection), (.done, .pause), (.waited(now: 5, isStopping: false), .search),
                (.searched(isFound: true), .followFound), (.followed, .notify),
            ]),
    ]

    @Test(arguments: scripts) func follows(script: Script) {
        var machine = LargeCommitMachine(patience: 100)
        #expect(machine.start() == .follow)
        for (number, step) in script.steps.enumerated() {
            let effect = machine.handle(step.event)
            #expect(effect == step.effect, "after step \(number), \(step.event)")
            guard effect == step.effect else { return }
        }
    }
}
