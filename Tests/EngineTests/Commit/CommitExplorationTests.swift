import Testing

@testable import Engine

/// Runs the commit machine through every order of events that a small world allows: the invariants hold, and every path
/// ends.
@Suite struct CommitExplorationTests {
    struct Scenario: CustomTestStringConvertible, Sendable {
        let name: String
        let world: CommitWorld
        var testDescription: String { name }

        init(_ name: String, _ world: CommitWorld) {
            self.name = name
            self.world = world
        }
    }

    static let scenarios = [
        Scenario("one, many losses", CommitWorld(1, .init(losses: 4, foreign: 2, deadlines: 1))),
        Scenario(
            "one, all kinds of failures",
            CommitWorld(
                1, .init(losses: 2, foreign: 2, errors: 1, lockConflicts: 1, unheldLocks: 1, refusals: 2, deadlines: 1)
            )),
        Scenario(
            "one that locks, all kinds of failures",
            CommitWorld(
                1, contended: true,
                .init(losses: 2, foreign: 2, errors: 1, lockConflicts: 1, unheldLocks: 2, refusals: 2, deadlines: 1))),
        Scenario(
            "one, the database counts as down",
            CommitWorld(
                1, isDatabaseUp: false, .init(losses: 3, foreign: 1, errors: 1, lockConflicts: 1, deadlines: 1))),
        Scenario(
            "one, trees loaded anew",
            CommitWorld(1, .init(losses: 3, foreign: 2, unheldLocks: 1, jumps: 2, deadlines: 1))),
        Scenario("two", CommitWorld(2, .init(losses: 2, foreign: 1, refusals: 1))),
        Scenario("two that lock", CommitWorld(2, contended: true, .init(losses: 2, foreign: 1, unheldLocks: 1))),
        Scenario("two with one claim", CommitWorld(2, claim: true, .init(losses: 2, refusals: 1))),
        Scenario("two and the deadline", CommitWorld(2, .init(losses: 2, lockConflicts: 1, deadlines: 2))),
        Scenario(
            "one among others",
            CommitWorld(
                1, .init(losses: 2, foreign: 2, errors: 1, lockConflicts: 1, refusals: 1, shared: 2, deadlines: 1))),
        Scenario("two among others", CommitWorld(2, .init(losses: 2, foreign: 1, shared: 2))),
        Scenario("two among others with one claim", CommitWorld(2, claim: true, .init(losses: 2, shared: 2))),
        Scenario("three", CommitWorld(3, .init(losses: 1))),
        Scenario(
            "one that may not write any more",
            CommitWorld(
                1, .init(losses: 2, foreign: 2, errors: 1, lockConflicts: 1, jumps: 1, follows: 1, deadlines: 1))),
        Scenario("two that may not write any more", CommitWorld(2, .init(losses: 2, foreign: 1, follows: 1))),
        Scenario(
            "two with one claim that may not write any more",
            CommitWorld(2, claim: true, .init(losses: 2, follows: 1))),
        Scenario(
            "one message of an upstream",
            CommitWorld(
                1, messages: true,
                .init(losses: 3, foreign: 1, errors: 1, lockConflicts: 1, jumps: 1, takeovers: 1, deadlines: 1))),
        Scenario(
            "one message under the lock",
            CommitWorld(
                1, contended: true, messages: true,
                .init(losses: 3, foreign: 1, unheldLocks: 1, jumps: 1, takeovers: 1, deadlines: 1))),
        Scenario(
            "messages of two followers", CommitWorld(2, messages: true, .init(losses: 2, foreign: 1, takeovers: 1))),
    ]

    @Test(arguments: scenarios) func everyOrder(scenario: Scenario) {
        let found = Exploration(from: scenario.world, next: \.next) { world, isEnd in
            world.violations + (isEnd ? world.finalViolations : [])
        }
        if let failure = found.failure {
            let way = failure.way.map { world in world.committers.map { "\($0.effect)" }.joined(separator: " | ") }
            Issue.record("\(failure.what) after\n\(way.joined(separator: "\n"))")
        }
        #expect(!found.hasCycle, "something may never end")
        #expect(!found.isCutOff)
        #expect(!found.ends.isEmpty)
    }
}
