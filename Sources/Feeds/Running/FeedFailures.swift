import LogStore
import Synchronization

/// The reason why a feed cannot continue.
struct FeedFailureReason: Sendable, Equatable {
    let reason: String
    /// Whether an invariant was violated. Neither the database nor a sink can cause that.
    let isFault: Bool

    init(_ reason: String) {
        self.reason = reason
        isFault = false
    }

    init(_ fault: FeedInvariantError) {
        reason = "\(fault)"
        isFault = true
    }
}

/// The feeds that cannot continue, and the claims under which the database no longer accepts progress. The supervisor ends these
/// runs and claims the feeds again. Usable on any thread.
final class FeedFailures: Sendable {
    private struct State: Sendable {
        var troubles: [FeedClaim: FeedFailureReason] = [:]
        var lost: Set<FeedClaim> = []
    }
    private let state = Mutex(State())

    func add(_ claims: Set<FeedClaim>, _ trouble: FeedFailureReason) {
        state.withLock { state in
            for claim in claims { state.troubles[claim] = trouble }
        }
    }

    /// Adds claims under which the database no longer accepts progress.
    func lose(_ claims: Set<FeedClaim>) {
        if !claims.isEmpty { state.withLock { $0.lost.formUnion(claims) } }
    }

    func take() -> [FeedClaim: FeedFailureReason] {
        state.withLock { state in
            defer { state.troubles = [:] }
            return state.troubles
        }
    }

    func takeLost() -> Set<FeedClaim> {
        state.withLock { state in
            defer { state.lost = [] }
            return state.lost
        }
    }
}
