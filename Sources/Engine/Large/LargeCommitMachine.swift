import Runtime

/// Decides how a large write, whose rows are in an open transaction, becomes the next entry. Pure: it has no connection and no
/// clock; `LargeCommit` does what it says and tells it what came of that.
///
/// The head is locked, and both the namespace and the write are brought up to it. What others have written meanwhile must not
/// meddle with what the write was evaluated on; else it is prepared anew. Then it is committed. Where the connection was lost
/// in COMMIT, the log is searched over another connection: the write is in it, or its transaction has ended without it, as the
/// search waits for the head's lock, which that transaction has.
struct LargeCommitMachine: Hashable, Sendable {
    /// What is to be done next. Each is answered by one event, except the last five, which end it.
    enum Effect: Hashable, Sendable {
        /// Bring the namespace up to the log, so that little is left to be done under the lock. Answered by `followed`.
        case follow
        /// Take the head's lock in the write's transaction. Answered by `locked`.
        case lockHead
        /// Read the log on from there, under the lock, and apply it to the namespace and to the write. Answered by `tookIn`.
        case takeIn(after: Int64)
        /// Ask the rules again, on the tree as it is now. Answered by `judged`.
        case judge
        /// Make it the next entry. Answered by `committed`.
        case commit
        /// Look whether it is in the log, when its transaction has ended. Answered by `searched`.
        case search
        /// It is there: apply it to the namespace. Answered by `followed`.
        case followFound
        /// Close the connection that it was searched over. Answered by `done`.
        case dropConnection
        /// Wait for a moment. Answered by `waited`.
        case pause

        /// It is committed: publish it, and tell its writer.
        case publish
        /// It is committed, and was followed: tell its writer.
        case tell
        /// Nothing was written: it has to be prepared anew.
        case prepareAgain
        /// The write's transaction failed, and nothing was written.
        case giveUp
        /// It may be in the log.
        case outcomeUnknown
    }

    /// Where in the log something is.
    struct Position: Hashable, Sendable {
        let seq: Int64
        /// The batch of the entry there; nil where it isn't known.
        let batch: [UInt8]?
    }

    /// How far the namespace's snapshot and the write have come.
    struct Ends: Hashable, Sendable {
        let namespace: Position
        let write: Position
    }

    /// What came of an effect.
    enum Event: Hashable, Sendable {
        case followed
        case locked(head: Int64, Ends)
        /// nil where it can't be applied: entries are missing or stand for more than they say, or touch what the write does.
        case tookIn(Ends?)
        case judged(isAllowed: Bool)
        case committed
        case searched(isFound: Bool)
        case done
        case waited(now: Milliseconds, isStopping: Bool)
        /// Instead of any other event, for effects that use the database. `now`: monotonic milliseconds.
        case failed(isConnectionLost: Bool, now: Milliseconds, isStopping: Bool)
    }

    private enum State: Hashable, Sendable {
        case idle, following, locking, judging, committing, searching, followingFound, ended
        case takingIn(head: Int64)
        case dropping, pausing
    }

    private let patience: Milliseconds
    private var state = State.idle
    /// The monotonic millisecond at which the search for its outcome ends.
    private var deadline: Milliseconds = 0

    /// - Parameter patience: milliseconds for which the log is searched for a write whose outcome isn't known.
    init(patience: Milliseconds) { self.patience = patience }

    /// The first effect.
    mutating func start() -> Effect {
        state = .following
        return .follow
    }

    /// Takes what came of the last effect and returns the next one.
    mutating func handle(_ event: Event) -> Effect {
        switch (state, event) {
        case (.following, .followed): return go(to: .locking, .lockHead)
        case (.locking, .locked(let head, let ends)): return takeIn(head, ends)
        case (.takingIn(let head), .tookIn(let ends)):
            guard let ends else { return end(.prepareAgain) }
            return takeIn(head, ends)
        case (.judging, .judged(let isAllowed)):
            return isAllowed ? go(to: .committing, .commit) : end(.prepareAgain)
        case (.committing, .committed): return end(.publish)
        case (.committing, .failed(isConnectionLost: true, let now, let isStopping)):
            deadline = now + patience
            return search(now, isStopping)
        case (.searching, .searched(let isFound)):
            return isFound ? go(to: .followingFound, .followFound) : end(.giveUp)
        case (.followingFound, .followed): return end(.tell)
        case (.searching, .failed(let isConnectionLost, _, _)), (.followingFound, .failed(let isConnectionLost, _, _)):
            return isConnectionLost ? go(to: .dropping, .dropConnection) : go(to: .pausing, .pause)
        case (.dropping, .done): return go(to: .pausing, .pause)
        case (.pausing, .waited(let now, let isStopping)): return search(now, isStopping)
        case (.following, .failed), (.locking, .failed), (.takingIn, .failed), (.committing, .failed):
            return end(.giveUp)
        default: preconditionFailure("\(event) is no answer in the state \(state)")
        }
    }

    /// Until both are at the head, the one that is further behind is brought on.
    private mutating func takeIn(_ head: Int64, _ ends: Ends) -> Effect {
        if ends.namespace.seq < head || ends.write.seq < head {
            return go(to: .takingIn(head: head), .takeIn(after: min(ends.namespace.seq, ends.write.seq)))
        }
        // The database may have lost entries and have others in their place.
        let isThere = ends.namespace.seq == head && ends.write.seq == head && ends.namespace.batch == ends.write.batch
        return isThere ? go(to: .judging, .judge) : end(.prepareAgain)
    }

    private mutating func search(_ now: Milliseconds, _ isStopping: Bool) -> Effect {
        guard now < deadline, !isStopping else { return end(.outcomeUnknown) }
        return go(to: .searching, .search)
    }

    private mutating func go(to next: State, _ effect: Effect) -> Effect {
        state = next
        return effect
    }

    private mutating func end(_ effect: Effect) -> Effect { go(to: .ended, effect) }
}
