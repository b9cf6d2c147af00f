import Foundation
import Testing

/// Runs random listeners, queries, writes, answers and lost connections. `PATHMIRROR_MODEL_ROUNDS` sets the number of
/// rounds, `PATHMIRROR_MODEL_SEED` the first seed, and `PATHMIRROR_MODEL_LOG` the number of log lines printed of a
/// failed round.
@Suite struct SyncModelTests {
    private static let rounds = number("PATHMIRROR_MODEL_ROUNDS") ?? 300
    private static let first = number("PATHMIRROR_MODEL_SEED") ?? 0
    /// The number of log lines printed of a failed round.
    private static let lines = Int(number("PATHMIRROR_MODEL_LOG") ?? 40)

    private static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }

    @Test func listenersReceiveTheCurrentState() {
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
