import Runtime
import Synchronization

/// Whether PostgreSQL answers, as the last to ask found. While it doesn't, writes fail at once instead of queueing up
/// behind connection attempts.
public final class DatabaseHealth: Sendable {
    private struct State {
        var isUp = false
        var reason = "not connected yet"
        var changedAt = Clock.monotonicMilliseconds
    }
    private let state = Mutex(State())

    init() {}

    public var isUp: Bool { state.withLock { $0.isUp } }
    /// Why it is down; of no meaning while it is up.
    public var reason: String { state.withLock { $0.reason } }
    public var millisecondsSinceChange: Int64 {
        Clock.monotonicMilliseconds - state.withLock { $0.changedAt }
    }

    /// True when that is news.
    func markUp() -> Bool { change(to: true, "") }
    func markDown(_ reason: String) -> Bool { change(to: false, reason) }

    private func change(to isUp: Bool, _ reason: String) -> Bool {
        state.withLock { state in
            defer {
                state.isUp = isUp
                state.reason = reason
            }
            guard state.isUp != isUp else { return false }
            state.changedAt = Clock.monotonicMilliseconds
            return true
        }
    }
}
