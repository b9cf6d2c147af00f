import Foundation
import Testing

/// Random listeners, queries, writes, answers and lost connections. `PATHMIRROR_MODEL_ROUNDS` asks for more rounds than a
/// test run has time for, `PATHMIRROR_MODEL_SEED` for others, and `PATHMIRROR_MODEL_LOG` for more of a wrong round's story.
@Suite struct SyncModelTests {
    private static let rounds = number("PATHMIRROR_MODEL_ROUNDS") ?? 300
    private static let first = number("PATHMIRROR_MODEL_SEED") ?? 0
    /// How much of a wrong round's story is told.
    private static let lines = Int(number("PATHMIRROR_MODEL_LOG") ?? 40)

    private static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }

    @Test func whatListenersAreToldIsWhatIsThere() {
        for seed in Self.first..<(Self.first + Self.rounds) {
            var model = SyncModel(seed: seed)
            for _ in 0..<150 where model.problems.isEmpty { model.step() }
            if model.problems.isEmpty { model.settle() }
            guard model.problems.isEmpty else {
                let story = model.log.suffix(Self.lines) + model.situation
                Issue.record("seed \(seed): \(model.problems)\n\(story.joined(separator: "\n"))")
                return
            }
        }
    }
}
