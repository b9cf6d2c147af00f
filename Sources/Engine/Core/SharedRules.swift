import Rules
import Synchronization

/// Rules that were compiled lately, by their source: many namespaces may have the same, which are then compiled once and held
/// once. Bounded. Any thread.
final class SharedRules: Sendable {
    private struct State: Sendable {
        var sets: [[UInt8]: RuleSet] = [:]
        var bytes = 0
    }
    private let state = Mutex(State())
    private static let maxBytes = 4 << 20

    init() {}

    func find(_ source: [UInt8]) -> RuleSet? { state.withLock { $0.sets[source] } }

    func keep(_ set: RuleSet) {
        // Others of the same source go on without being shared; all are freed outside of the lock.
        let old = state.withLock { state -> State in
            var old = State()
            if state.bytes + set.source.count > Self.maxBytes { swap(&old, &state) }
            if state.sets.updateValue(set, forKey: set.source) == nil { state.bytes += set.source.count }
            return old
        }
        withExtendedLifetime(old) {}
    }
}
