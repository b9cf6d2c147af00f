public import Runtime
import Synchronization

/// Whether PostgreSQL answers, as the last to ask found. While it doesn't, writes fail at once instead of queueing up
/// behind connection attempts.
public final class DatabaseHealth: Sendable {
    private struct State {
        var isUp = false
        /// It doesn't even refuse: whoever asks it waits in vain.
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
    /// Why it is down; of no meaning while it is up.
    public var reason: String { state.withLock { $0.reason } }
    public var millisecondsSinceChange: Milliseconds {
        now() - state.withLock { $0.changedAt }
    }

    /// Why new writes are refused at once; nil while they may be tried. A database that has just been lost may be back
    /// before anybody has to be refused.
    var refusal: String? {
        state.withLock { state in
            guard !state.isUp else { return nil }
            let isOld = now() - state.changedAt >= Self.graceMilliseconds
            return state.isSilent || isOld ? state.reason : nil
        }
    }

    private static let graceMilliseconds: Milliseconds = 1_000

    /// True when that is news.
    func markUp() -> Bool { change(to: true, "", isSilent: false, isTold: false) }

    /// True when that is news; with `isTold` also that it is for another reason than before.
    func markDown(_ reason: String, isSilent: Bool = false, isTold: Bool = false) -> Bool {
        change(to: false, reason, isSilent: isSilent, isTold: isTold)
    }

    private func change(to isUp: Bool, _ reason: String, isSilent: Bool, isTold: Bool) -> Bool {
        state.withLock { state in
            defer {
                // Silent until it answers: that an attempt failed at once says nothing of those that wait.
                state.isSilent = !isUp && (isSilent || state.isSilent)
                state.isUp = isUp
                state.reason = reason
            }
            guard state.isUp != isUp else { return isTold && state.reason != reason }
            state.changedAt = now()
            return true
        }
    }
}
