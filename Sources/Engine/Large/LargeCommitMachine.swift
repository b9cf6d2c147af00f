import LogStore
import Runtime

/// Decides how a large write, whose rows are in an open transaction, becomes the next entry. Pure: the machine has no
/// connection and no clock; `LargeCommit` executes its effects and reports their results as events.
///
/// The head is locked, and both the namespace and the write are brought up to it. If writes of others meanwhile
/// conflict with the evaluated state, the write is prepared again. Otherwise it is committed.
/// If the connection was lost during COMMIT, the log is searched over another connection. The search waits for the
/// head's lock, which the write's transaction holds, so it either finds the write, or the transaction has ended without
/// it.
struct LargeCommitMachine: Hashable, Sendable {
    /// The next step. The caller answers each effect by one event, except the last five, which end the write.
    enum Effect: Hashable, Sendable {
        /// Apply the log to the namespace, so that little remains to be done under the lock. Answered by `followed`.
        case follow
        /// Take the head's lock in the write's transaction. Answered by `locked`.
        case lockHead
        /// Read the log after that seq, under the lock, and apply it to the namespace and to the write. Answered by
        /// `tookIn`.
        case takeIn(after: Int64)
        /// Evaluate the rules again on the present tree. Answered by `judged`.
        case judge
        /// Make the write the next entry. Answered by `committed` or `refused`.
        case commit
        /// Search the log for the write once its transaction has ended. Answered by `searched`.
        case search
        /// The write is in the log: apply it to the namespace. Answered by `followed`.
        case followFound
        /// Close the connection of the search. Answered by `done`.
        case dropConnection
        /// Pause briefly. Answered by `waited`.
        case pause

        /// The write is committed: publish it and answer its writer.
        case publish
        /// The write is committed and was followed: answer its writer.
        case notify
        /// No entry was written: prepare the write again.
        case prepareAgain
        /// The write's transaction failed, and nothing was written.
        case giveUp
        /// The write may be in the log.
        case outcomeUnknown
    }

    /// The positions of the namespace's snapshot and of the write.
    struct Ends: Hashable, Sendable {
        let namespace: LogPosition
        let write: LogPosition
    }

    /// The result of an effect.
    enum Event: Hashable, Sendable {
        case followed
        case locked(head: Int64, Ends)
        /// Nil if the entries cannot be applied: they are missing, or are rules or stored in parts, or overlap the
        /// write.
        case tookIn(Ends?)
        case judged(isAllowed: Bool)
        case committed
        /// The namespace follows an upstream, and the write is not its next message. Nothing was written.
        case refused
        case searched(isFound: Bool)
        case done
        case waited(now: Milliseconds, isStopping: Bool)
        /// Replaces any other event, for effects that use the database. `now`: monotonic milliseconds.
        case failed(isConnectionLost: Bool, now: Milliseconds, isStopping: Bool)
    }

    private enum State: Hashable, Sendable {
        case idle, following, locking, judging, committing, searching, followingFound, ended
        case takingIn(head: Int64)
        case dropping, pausing
    }

    private let patience: Milliseconds
    private var state = State.idle
    /// The monotonic millisecond at which the search for the outcome ends.
    private var deadline: Milliseconds = 0

    /// - Parameter patience: milliseconds for which the log is searched for a write whose outcome is unknown.
    init(patience: Milliseconds) { self.patience = patience }

    /// Returns the first effect.
    mutating func start() -> Effect {
        state = .following
        return .follow
    }

    /// Accepts the result of the last effect and returns the next one.
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
        case (.committing, .refused): return end(.giveUp)
        case (.committing, .failed(isConnectionLost: true, let now, let isStopping)):
            deadline = now + patience
            return search(now, isStopping)
        case (.searching, .searched(let isFound)):
            return isFound ? go(to: .followingFound, .followFound) : end(.giveUp)
        case (.followingFound, .followed): return end(.notify)
        case (.searching, .failed(let isConnectionLost, _, _)), (.followingFound, .failed(let isConnectionLost, _, _)):
            return isConnectionLost ? go(to: .dropping, .dropConnection) : go(to: .pausing, .pause)
        case (.dropping, .done): return go(to: .pausing, .pause)
        case (.pausing, .waited(let now, let isStopping)): return search(now, isStopping)
        case (.following, .failed), (.locking, .failed), (.takingIn, .failed), (.committing, .failed):
            return end(.giveUp)
        default: preconditionFailure("\(event) is not an answer in the state \(state)")
        }
    }

    /// Advances the older of the two positions until both are at the head.
    private mutating func takeIn(_ head: Int64, _ ends: Ends) -> Effect {
        if ends.namespace.seq < head || ends.write.seq < head {
            return go(to: .takingIn(head: head), .takeIn(after: min(ends.namespace.seq, ends.write.seq)))
        }
        // The database may have lost entries and have others at the same seqs.
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
