import Rules
import Testing

@testable import Engine

/// Checks the step that follows an attempt to execute operations: see `ExecutionMachine`.
@Suite struct ExecutionMachineTests {
    private static let committed = WriteOutcome.committed(seq: 7, changes: [])
    private static let failures: [EngineError] = [
        .unavailable("away"), .overloaded, .outcomeUnknown, .unknownNamespace("x"), .corrupt("bad"),
    ]

    @Test func anEndedSessionIsTriedUntilItIsKnownToBeDone() {
        #expect(ExecutionMachine.next(after: Self.committed, of: .ended) == .done)
        for failure in Self.failures {
            #expect(ExecutionMachine.next(after: .failed(failure), of: .ended) == .retry, "\(failure)")
        }
    }

    /// The row stays: another gateway executes it when this gateway's lease is removed.
    @Test func aGatewayThatStopsLeavesItToTheOthers() {
        #expect(ExecutionMachine.next(after: .failed(.stopping), of: .ended) == .done)
    }

    @Test(arguments: 1...5) func takenOverGatewaysAreCheckedAgain(triesLeft: Int) {
        #expect(
            ExecutionMachine.next(after: Self.committed, of: .takenOver(triesLeft: triesLeft))
                == .lookAgain(triesLeft: triesLeft - 1))
        for failure in Self.failures + [.stopping] {
            #expect(ExecutionMachine.next(after: .failed(failure), of: .takenOver(triesLeft: triesLeft)) == .done)
        }
    }
}
