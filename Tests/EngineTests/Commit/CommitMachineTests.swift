import Testing

@testable import Engine

/// Checks each rule of the commit machine as a script of events and the effects that must follow.
@Suite struct CommitMachineTests {
    struct Script: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var isContended = false
        let steps: [(event: CommitMachine.Event, effect: CommitMachine.Effect)]

        init(
            _ name: String, isContended: Bool = false,
            _ parts: [(event: CommitMachine.Event, effect: CommitMachine.Effect)]...
        ) {
            testDescription = name
            self.isContended = isContended
            steps = parts.flatMap(\.self)
        }
    }

    private static let deadline: Int64 = 100
    private static let a: [UInt8] = [1]
    private static let b: [UInt8] = [2]
    private static let c: [UInt8] = [3]
    private static let foreign: [UInt8] = [9]

    private static func lost(at now: Int64 = 0, isDatabaseUp: Bool = true, stops: Bool = false) -> CommitMachine.Event {
        .failed(.connectionLost, .init(now: now, isDatabaseUp: isDatabaseUp, isStopping: stops))
    }

    private static func failed(_ failure: CommitMachine.Failure, at now: Int64 = 0) -> CommitMachine.Event {
        .failed(failure, .init(now: now, isDatabaseUp: true, isStopping: false))
    }

    private typealias Step = (event: CommitMachine.Event, effect: CommitMachine.Effect)

    /// Returns the steps from the beginning until a batch has been sent without a lock.
    private static func sent(_ batch: [UInt8], repeated: Bool = false) -> [Step] {
        [
            (.connected, .evaluate(isRepeated: repeated)),
            (.evaluated(batch: batch, hasRecords: true), .send(isLocked: false)),
        ]
    }

    /// Returns the steps from the loss of the connection while a batch is sent until the machine has a new connection.
    private static func lostAndBack(_ number: Int) -> [Step] {
        [
            (lost(), .keepLost), (.done, .dropConnection), (.done, .pause), (.done, .connect(isRetry: false)),
            (.connected, .search(lost: number)),
        ]
    }

    static let usual: [Script] = [
        Script("a batch is committed", sent(a), [(.committed, .publish(.current))]),
        Script(
            "where others write, the head is locked first", isContended: true,
            [
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: a, hasRecords: true), .send(isLocked: true)), (.committed, .publish(.current)),
            ]),
        Script(
            "a lock that isn't held is taken again", isContended: true,
            [
                (.connected, .lockHead), (.locked(isHeld: false, [foreign]), .connect(isRetry: false)),
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
            ]),
        Script(
            "another gateway has executed the operations",
            sent(a), [(.alreadyClaimed, .answerClaimed)]),
        Script(
            "refused on the newest state",
            [
                (.connected, .evaluate(isRepeated: false)), (.evaluated(batch: a, hasRecords: false), .checkHead),
                (.headChecked(isNewest: true), .forgetClaims), (.done, .answer(.current)),
            ]),
        Script(
            "refused on an old state: evaluated again, on the newest one",
            [
                (.connected, .evaluate(isRepeated: false)), (.evaluated(batch: a, hasRecords: false), .checkHead),
                (.headChecked(isNewest: false), .follow),
                (.followed([foreign], isComplete: true), .connect(isRetry: false)),
                (.connected, .evaluate(isRepeated: false)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)),
            ]),
        Script(
            "refused under the lock: nobody has to look", isContended: true,
            [
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: a, hasRecords: false), .unlockHead), (.done, .forgetClaims),
                (.done, .answer(.current)),
            ]),
    ]

    static let conflicts: [Script] = [
        Script(
            "the head had moved: follow, and try again",
            sent(a),
            [
                (.headMoved, .follow), (.followed([foreign], isComplete: true), .connect(isRetry: true)),
                (.connected, .evaluate(isRepeated: false)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)),
                (.committed, .publish(.current)),
            ]),
        Script(
            "the third attempt locks",
            sent(a), [(.headMoved, .follow), (.followed([foreign], isComplete: true), .connect(isRetry: true))],
            sent(b),
            [
                (.headMoved, .follow), (.followed([foreign], isComplete: true), .connect(isRetry: true)),
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: c, hasRecords: true), .send(isLocked: true)), (.committed, .publish(.current)),
            ]),
        Script(
            "and so do all after it", isContended: false,
            sent(a), [(.headMoved, .follow), (.followed([], isComplete: true), .connect(isRetry: true))], sent(b),
            [(.headMoved, .follow), (.followed([], isComplete: true), .connect(isRetry: true))],
            [
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: c, hasRecords: true), .send(isLocked: true)), (.headMoved, .follow),
                (.followed([], isComplete: true), .connect(isRetry: true)), (.connected, .lockHead),
            ]),
        Script(
            "a tree that was loaded anew says nothing of batches that nobody lost",
            sent(a),
            [
                (.headMoved, .follow), (.followed([], isComplete: false), .connect(isRetry: true)),
                (.connected, .evaluate(isRepeated: false)),
            ]),
    ]

    static let losses: [Script] = [
        Script(
            "lost, and in the log", sent(a), lostAndBack(0),
            [(.searched(isFound: true, hasMoved: false), .publish(.lost(0)))]),
        Script(
            "lost, and not in the log: sent again, at the same instant",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)), (.committed, .publish(.current)),
            ]),
        Script(
            "it comes between the search and the following",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([foreign, a], isComplete: true), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "it comes before the second batch arrives",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)), (.headMoved, .follow),
                (.followed([a], isComplete: true), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "it comes before the lock is taken", isContended: true,
            [
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: a, hasRecords: true), .send(isLocked: true)),
            ], lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow), (.followed([], isComplete: true), .lockHead),
                (.locked(isHeld: true, [a]), .unlockHead), (.done, .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "it comes before a lock that isn't held", isContended: true,
            [
                (.connected, .lockHead), (.locked(isHeld: true, []), .evaluate(isRepeated: false)),
                (.evaluated(batch: a, hasRecords: true), .send(isLocked: true)),
            ], lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow), (.followed([], isComplete: true), .lockHead),
                (.locked(isHeld: false, [a]), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "two are lost, and the first one comes",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)),
            ], lostAndBack(1),
            [
                (.searched(isFound: false, hasMoved: false), .search(lost: 0)),
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([a], isComplete: true), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "two are lost, and the first one was followed when the connection was lost once more",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: true), .send(isLocked: false)),
            ], lostAndBack(1),
            [
                (.searched(isFound: false, hasMoved: false), .search(lost: 0)),
                (.searched(isFound: false, hasMoved: false), .follow), (lost(), .dropConnection), (.done, .pause),
                (.done, .connect(isRetry: false)), (.connected, .search(lost: 1)),
                (.searched(isFound: false, hasMoved: true), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "the tree was loaded anew after the search: it is searched for again",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: false), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
        Script(
            "refused after a loss, at the same instant and on the newest state",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([foreign], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: false), .checkHead), (.headChecked(isNewest: true), .forgetClaims),
                (.done, .answer(.current)),
            ]),
        Script(
            "it was there when the head was looked at",
            sent(a), lostAndBack(0),
            [
                (.searched(isFound: false, hasMoved: false), .follow),
                (.followed([], isComplete: true), .evaluate(isRepeated: true)),
                (.evaluated(batch: b, hasRecords: false), .checkHead), (.headChecked(isNewest: false), .follow),
                (.followed([a], isComplete: true), .search(lost: 0)),
                (.searched(isFound: true, hasMoved: true), .follow),
                (.followed([], isComplete: true), .answer(.lost(0))),
            ]),
    ]

    static let failures: [Script] = [
        Script(
            "nothing was sent: one more attempt on another connection",
            [
                (lost(), .dropConnection), (.done, .pause), (.done, .connect(isRetry: false)),
                (lost(), .dropConnection), (.done, .fail(.asReported)),
            ]),
        Script(
            "nothing was sent and the database is away",
            [(lost(isDatabaseUp: false), .dropConnection), (.done, .fail(.asReported))]),
        Script(
            "an error that isn't worth another attempt",
            sent(a), [(failed(.other), .reportFailure), (.done, .fail(.asReported))]),
        Script(
            "somebody's lock is waited for until the deadline", isContended: true,
            [
                (.connected, .lockHead), (failed(.lockConflict), .reportFailure), (.done, .pause),
                (.done, .connect(isRetry: false)), (.connected, .lockHead),
                (failed(.lockConflict, at: 99), .reportFailure), (.done, .pause), (.done, .connect(isRetry: false)),
                (.connected, .lockHead), (failed(.lockConflict, at: 100), .reportFailure), (.done, .fail(.asReported)),
            ]),
        Script(
            "what may be written is searched for until the deadline",
            sent(a), lostAndBack(0),
            [
                (lost(at: 50, isDatabaseUp: false), .dropConnection), (.done, .pause),
                (.done, .connect(isRetry: false)), (lost(at: 99, isDatabaseUp: false), .dropConnection),
                (.done, .pause),
                (.done, .connect(isRetry: false)), (lost(at: 100, isDatabaseUp: false), .dropConnection),
                (.done, .fail(.outcomeUnknown)),
            ]),
        Script(
            "an error while it is searched for changes nothing",
            sent(a), lostAndBack(0),
            [
                (failed(.other), .reportFailure), (.done, .pause), (.done, .connect(isRetry: false)),
                (.connected, .search(lost: 0)), (.searched(isFound: true, hasMoved: false), .publish(.lost(0))),
            ]),
        Script(
            "lost behind the deadline",
            sent(a), [(lost(at: 100), .keepLost), (.done, .dropConnection), (.done, .fail(.outcomeUnknown))]),
        Script(
            "lost while the engine stops",
            sent(a), [(lost(stops: true), .keepLost), (.done, .dropConnection), (.done, .fail(.outcomeUnknown))]),
        Script(
            "the connection of an attempt that was sent does not use up the second one",
            [
                (.connected, .evaluate(isRepeated: false)), (.evaluated(batch: a, hasRecords: false), .checkHead),
                (lost(), .dropConnection), (.done, .pause), (.done, .connect(isRetry: false)),
            ], sent(a), [(lost(), .keepLost), (.done, .dropConnection), (.done, .pause)]),
    ]

    @Test(arguments: usual + conflicts + losses + failures) func follows(script: Script) {
        var machine = CommitMachine(deadline: Self.deadline, isContended: script.isContended)
        #expect(machine.start() == .connect(isRetry: false))
        for (number, step) in script.steps.enumerated() {
            let effect = machine.handle(step.event)
            #expect(effect == step.effect, "after step \(number), \(step.event)")
            // The remaining events would not answer this effect.
            guard effect == step.effect else { return }
        }
    }

    /// An event that does not answer the requested effect is a program error, not a state to continue from.
    @Test func anEventThatIsNoAnswerEndsTheProgram() async {
        await #expect(processExitsWith: .failure) {
            var machine = CommitMachine(deadline: 1, isContended: false)
            _ = machine.start()
            _ = machine.handle(.committed)
        }
    }
}
