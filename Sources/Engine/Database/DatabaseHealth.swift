public import Runtime
import Synchronization

/// Whether PostgreSQL answered the last query or connection attempt. While it does not, writes fail immediately instead
/// of waiting for connection attempts.
public final class DatabaseHealth: Sendable {
    private struct State {
        var isUp = false
        /// Whether the database does not even refuse connections, so that a query waits in vain.
        var isSilent = false
        var reason = "not connected yet"
        var changedAt: Milliseconds
    }
    private let state: Mutex<State>
    private let now: @Sendable () -> Milliseconds

    /// - Parameter now: monotonic milliseconds.
    init(now: @escaping @Sendable () -> Milliseconds = { Clock.monotonicMilliseconds }) {
        self.now = now
        state = Mutex(State(changedAt: now()))
    }

    public var isUp: Bool { state.withLock { $0.isUp } }
    /// The reason why the database is down; meaningless while it is up.
    public var reason: String { state.withLock { $0.reason } }
    public var millisecondsSinceChange: Milliseconds {
        now() - state.withLock { $0.changedAt }
    }

    /// The reason why new writes are rejected immediately; nil while they may be tried. A database that has just been
    /// lost may return before any write has to be rejected.
    var refusal: String? {
        state.withLock { state in
            guard !state.isUp else { return nil }
            let isOld = now() - state.changedAt >= Self.graceMilliseconds
            return state.isSilent || isOld ? state.reason : nil
        }
    }

    private static let graceMilliseconds: Milliseconds = 1_000

    /// Returns true if the state changed.
    func markUp() -> Bool { change(to: true, "", isSilent: false, isReported: false) }

    /// Returns true if the state changed, or, with `isReported`, if the reason changed.
    func markDown(_ reason: String, isSilent: Bool = false, isReported: Bool = false) -> Bool {
        change(to: false, reason, isSilent: isSilent, isReported: isReported)
    }

    private func change(to isUp: Bool, _ reason: String, isSilent: Bool, isReported: Bool) -> Bool {
        state.withLock { state in
            defer {
                // Silent until the database answers: an attempt that failed immediately proves nothing about the
                // connections that wait.
                state.isSilent = !isUp && (isSilent || state.isSilent)
                state.isUp = isUp
                state.reason = reason
            }
            guard state.isUp != isUp else { return isReported && state.reason != reason }
            state.changedAt = now()
            return true
        }
    }
}
