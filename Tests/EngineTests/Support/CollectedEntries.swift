import Engine
import Runtime
import Tree

/// The entries that `Engine.readLog` returns.
final class CollectedEntries: Sendable {
    private let state = Condition<(entries: [Entry], isDone: Bool)>(([], false))

    @Sendable func take(_ entries: [Entry], _ batches: [[UInt8]], after seq: Int64) -> Bool {
        state.withLock { $0.entries += entries }
        return true
    }

    @Sendable func finish(_ result: Result<Void, EngineError>) {
        state.broadcast { $0.isDone = true }
    }

    /// Waits for the end, and returns all entries; nil after 20 seconds.
    func wait() -> [Entry]? {
        state.wait(milliseconds: 20_000) { $0.isDone ? $0.entries : nil }
    }
}
