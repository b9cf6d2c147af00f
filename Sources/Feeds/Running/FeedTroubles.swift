import LogStore
import Synchronization

/// Why a feed can't be worked on.
struct FeedTrouble: Sendable, Equatable {
    let reason: String
    /// Whether something does not hold that has to, whatever the database and peers say.
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

/// Feeds that can't be worked on, and those of which the database takes nothing any more: the supervisor ends these, and claims them
/// again. Any thread may add to it.
final class FeedTroubles: Sendable {
    private struct State: Sendable {
        var troubles: [FeedClaim: FeedTrouble] = [:]
        var lost: Set<FeedClaim> = []
    }
    private let state = Mutex(State())

    func add(_ claims: Set<FeedClaim>, _ trouble: FeedTrouble) {
        state.withLock { state in
            for claim in claims { state.troubles[claim] = trouble }
        }
    }

    /// The database takes nothing more under these claims.
    func lose(_ claims: Set<FeedClaim>) {
        if !claims.isEmpty { state.withLock { $0.lost.formUnion(claims) } }
    }

    func take() -> [FeedClaim: FeedTrouble] {
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
