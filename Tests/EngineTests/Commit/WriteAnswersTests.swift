import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import LogStore
@testable import Postgres

/// Checks which sinks are notified, and how often.
@Suite struct WriteAnswersTests {
    private final class CountingSink: WriteSink {
        private let state = MutexBox<[[UInt64]]>([])
        var calls: [[UInt64]] { state.withLock { $0 } }
        func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
            state.withLock { $0.append(outcomes.map(\.token)) }
        }
    }

    @Test func oneCallASinkInTheOrderOfTheWrites() {
        let metrics = EngineMetrics()
        let (first, second) = (CountingSink(), CountingSink())
        let waiting = (0..<6 as Range<UInt64>).map { WriteQueue.Waiting.test($0, sink: $0 % 2 == 0 ? first : second) }
        WriteAnswers(metrics).complete(waiting, waiting.map { .committed(seq: Int64($0.token), changes: []) })
        #expect(first.calls == [[0, 2, 4]])
        #expect(second.calls == [[1, 3, 5]])
    }

    @Test func outcomesAreCounted() {
        let metrics = EngineMetrics()
        let sink = CollectingSink()
        let outcomes: [WriteOutcome] = [
            .committed(seq: 1, changes: []), .preconditionFailed(seq: 1, current: nil),
            .preconditionFailed(seq: 1, current: .null), .tooLarge, .refused("no"),
        ]
        let waiting = outcomes.indices.map { WriteQueue.Waiting.test(UInt64($0), sink: sink) }
        WriteAnswers(metrics).complete(waiting, outcomes)
        #expect(metrics.failedPreconditions.current == 2)
        #expect(metrics.deniedWrites.current == 0 && metrics.failedWrites.current == 0)
        #expect(sink.outcomes.count == 5 && sink.repeated.isEmpty)
    }

    @Test func allOfABatchFailTogether() {
        let metrics = EngineMetrics()
        let sink = CollectingSink()
        let waiting = (0..<3 as Range<UInt64>).map { WriteQueue.Waiting.test($0, sink: sink) }
        WriteAnswers(metrics).fail(waiting, .outcomeUnknown)
        #expect((0..<3).allSatisfy { sink.outcomes[$0]?.failure == .outcomeUnknown })
        #expect(metrics.failedWrites.current == 3)
        WriteAnswers(metrics).fail([], .stopping)
        #expect(metrics.failedWrites.current == 3)
    }

    // MARK: Errors

    @Test(arguments: [
        (LogStoreError.corrupt("x"), EngineError.corrupt("x")),
        (.unknownNamespace("n"), .unknownNamespace("n")),
        (.standby, .unavailable("\(LogStoreError.standby)")),
        (.schemaMissing(found: 1, needed: 2), .unavailable("\(LogStoreError.schemaMissing(found: 1, needed: 2))")),
        (.database(PostgresError(.connectionLost, "gone")), .unavailable("\(PostgresError(.connectionLost, "gone"))")),
    ])
    func whatADatabaseErrorMeansForAWrite(error: LogStoreError, reported: EngineError) {
        #expect(EngineError(error) == reported)
    }

    @Test(arguments: [
        (LogStoreError.database(PostgresError(.connectionLost, "")), CommitMachine.Failure.connectionLost),
        (.database(PostgresError(.timeout, "")), .connectionLost),
        (.database(PostgresError(.cancelled, "")), .connectionLost),
        (.database(PostgresError(.connect, "")), .connectionLost),
        (.database(PostgresError(.server(sqlState: "57P01"), "")), .connectionLost),
        (.database(PostgresError(.server(sqlState: "08006"), "")), .connectionLost),
        (.database(PostgresError(.server(sqlState: "40P01"), "")), .lockConflict),
        (.database(PostgresError(.server(sqlState: "40001"), "")), .lockConflict),
        (.database(PostgresError(.server(sqlState: "55P03"), "")), .lockConflict),
        (.database(PostgresError(.server(sqlState: "57014"), "")), .other),
        (.database(PostgresError(.server(sqlState: "23505"), "")), .other), (.corrupt(""), .other),
        (.standby, .connectionLost), (.outdated(timeline: 1, newest: 2), .connectionLost),
        (.anotherInstallation(database: "", expected: "", found: nil), .connectionLost),
        (.unknownNamespace(""), .other),
    ])
    func whatADatabaseErrorMeansForABatch(error: LogStoreError, failure: CommitMachine.Failure) {
        #expect(CommitMachine.Failure(error) == failure)
    }
}
