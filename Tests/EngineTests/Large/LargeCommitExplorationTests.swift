import Testing

@testable import Engine

/// Runs the machine of large writes through every order of events that a small world allows.
@Suite struct LargeCommitExplorationTests {
    struct Scenario: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let world: LargeWorld

        init(_ name: String, _ world: LargeWorld) {
            testDescription = name
            self.world = world
        }
    }

    static let scenarios = [
        Scenario("nobody else", LargeWorld(.init(losses: 4, errors: 2, refusals: 1, deadlines: 1, stops: 1))),
        Scenario("others elsewhere", LargeWorld(after: 3, .init(losses: 3, errors: 1, harmless: 3, deadlines: 1))),
        Scenario(
            "others at the same places",
            LargeWorld(after: 1, .init(losses: 2, harmless: 2, conflicting: 1, special: 1, refusals: 1, deadlines: 1))),
        Scenario(
            "a namespace that follows an upstream",
            LargeWorld(after: 1, .init(losses: 2, harmless: 2, follows: 2, deadlines: 1))),
        Scenario(
            "a history that changes",
            LargeWorld(after: 2, .init(losses: 2, harmless: 2, rolledBack: 2, deadlines: 1, stops: 1))),
    ]

    @Test(arguments: scenarios) func everyOrder(scenario: Scenario) {
        let found = Exploration(from: scenario.world, next: \.next) { world, isEnd in
            world.violations + (isEnd ? world.finalViolations : [])
        }
        if let failure = found.failure {
            Issue.record("\(failure.what) after \(failure.way.map { "\($0.effect)" })")
        }
        #expect(!found.hasCycle, "something may never end")
        #expect(!found.isCutOff)
        #expect(found.ends.count > 10)
    }

    /// The events that each scenario is meant to cover really happen in it.
    @Test func allAnswersHappen() {
        var seen: Set<LargeWorld.Answer> = []
        for scenario in Self.scenarios {
            let found = Exploration(from: scenario.world, next: \.next) { _, _ in [] }
            seen.formUnion(found.ends.compactMap(\.answer))
        }
        #expect(seen == [.done, .again, .failed, .unknown])
    }
}
