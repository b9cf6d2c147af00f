import Foundation
import Testing

/// Random listeners, queries, writes and answers. `PATHMIRROR_MODEL_ROUNDS` asks for more rounds than a test run has
/// time for.
@Suite struct SyncModelTests {
    private static let rounds =
        ProcessInfo.processInfo.environment["PATHMIRROR_MODEL_ROUNDS"].flatMap { UInt64($0) } ?? 300

    @Test func whatListenersAreToldIsWhatIsThere() {
        for seed in 0..<Self.rounds {
            var model = SyncModel(seed: seed)
            for _ in 0..<150 where model.problems.isEmpty { model.step() }
            if model.problems.isEmpty { model.settle() }
            guard model.problems.isEmpty else {
                Issue.record(
                    "seed \(seed): \(model.problems)\n\(model.log.suffix(Int(ProcessInfo.processInfo.environment["PATHMIRROR_MODEL_LOG"] ?? "") ?? 40).joined(separator: "\n"))"
                )
                return
            }
        }
    }
}
