import Runtime

/// Decides how one batch is processed, from the waiting writes to their answers. Pure: the machine has no connection
/// and no clock; `BatchCommit` executes its effects and reports their results as events.
///
/// Usually a batch is evaluated on the snapshot, sent, published and answered. These cases differ:
///
/// - The head has moved because others have written. Their entries are followed and the writes are evaluated again.
///   From the third attempt on, and if others wrote lately, the head's lock is taken before the evaluation.
/// - The connection was lost after the batch was sent. The batch may be in the log, may be written later, or never.
///   On a new connection the log is searched for it. If the batch is missing, the writes are sent again as another
///   batch, and all entries that are followed from then on are compared with the lost batches. At most one of these
///   batches is ever written: as soon as one is, the head is no longer where the others require it.
/// - The connection was lost, or the server reported a commit without its standby. Reading a batch in the log does not
///   permit an answer: only the search for it waits for the synchronous standbys, as it takes the head's lock in a
///   transaction of its own.
/// - The namespace follows an upstream, and the batch contains writes that may not be written there, or messages that
///   are not the next ones. The log is followed, because a lost batch may be the reason, and the writes are evaluated
///   again: those writes are refused then.
/// - All writes were refused. They are answered only if it is certain that the snapshot is the newest state.
/// - The database fails. Writes of which nothing was sent fail after one attempt on a new connection.
///   Batches that may have been written are searched for until the writes' deadline; after that their outcome is
///   unknown.
///
///     connecting -> [searching] -> [following] -> [locking] -> evaluating -> sending -> ended
///
///     state             event                                   next state
///     ----------------  --------------------------------------  -------------------------------------------
///     connecting        connected, no batch is lost             evaluating; locking if others write here, and
///                                                               from the third attempt on
///                       connected, a batch is lost              searching, for the newest lost batch
///     searching         found, directly after the snapshot      ended: publish the lost batch
///                       found, but the snapshot has moved       following
///                       not found                               searching, for the next older one; following
///                                                               after the oldest
///     following         for a found batch                       ended: answer by the lost batch
///                       a lost batch is among the entries       searching
///                       for a moved head                        connecting, next attempt
///                       for a search that found nothing         evaluating or locking; searching again, for the
///                                                               newest lost batch, if the tree was reloaded
///     locking           the lock is held                        evaluating
///                       the lock is not held                    connecting, next attempt
///                       a lost batch is among the entries       [unlocking,] searching
///     evaluating        there are records to write              sending
///                       there are none, the lock is held        unlocking, forgettingClaims
///                       there are none                          checkingHead
///     checkingHead      the snapshot is the newest state        forgettingClaims
///                       the snapshot is older                   following
///     forgettingClaims  done                                    ended: answer
///     sending           committed; alreadyClaimed               ended: publish; answer
///                       headMoved; following; superseded        following
///     any               failed                                  recovering; keepingLost before it if the
///                                                               connection was lost while sending
///     recovering        another attempt is worthwhile           pausing, connecting
///                       the deadline has passed, the engine     ended: fail
///                       stops, or an attempt can gain nothing
struct CommitMachine: Hashable, Sendable {
    /// The next step. The caller answers each effect by one event, except the last four, which end the batch.
    enum Effect: Hashable, Sendable {
        /// Get a connection, if there is none. Answered by `connected`.
        case connect(isRetry: Bool)
        /// Search the log for a lost batch, after any transaction that is writing there now. Answered by `searched`.
        case search(lost: Int)
        /// Apply the log after the snapshot. Answered by `followed`.
        case follow
        /// Take the head's lock and apply the log after the snapshot. Answered by `locked`.
        case lockHead
        /// Release the head's lock. Answered by `done`.
        case unlockHead
        /// Evaluate the writes on the snapshot. Answered by `evaluated`.
        ///
        /// `isRepeated`: with the time of the first lost batch. Rules may depend on the time, and writes that were
        /// accepted and sent must not be refused on the same tree, because their batch may still be written.
        case evaluate(isRepeated: Bool)
        /// Check whether the snapshot is still the newest state. Answered by `headChecked`.
        case checkHead
        /// Remove the sessions whose operations were all refused. Answered by `done`.
        case forgetClaims
        /// Send the evaluated batch. Answered by `committed`, `alreadyClaimed`, `headMoved`, `following` or `superseded`.
        case send(isLocked: Bool)
        /// Keep the batch that was sent last as the next lost batch. Answered by `done`.
        case keepLost
        /// Close the connection. Answered by `done`.
        case dropConnection
        /// Log the error. Answered by `done`.
        case reportFailure
        /// Pause briefly. Answered by `done`.
        case pause

        /// The batch is in the log and directly follows the snapshot: publish the evaluated state and answer the
        /// writes.
        case publish(Sent)
        /// Answer the writes; there is nothing to publish.
        case answer(Sent)
        /// Another gateway has executed the session's operations: answer the writes accordingly.
        case answerClaimed
        /// Answer the writes with an error.
        case fail(Failing)
    }

    /// The evaluation by which the writes are answered.
    enum Sent: Hashable, Sendable {
        /// The last evaluation.
        case current
        /// The evaluation of a lost batch.
        case lost(Int)
    }

    /// The kind of error with which the writes fail.
    enum Failing: Hashable, Sendable {
        /// No entry was written; the last error is the reason.
        case asReported
        /// One of the batches of these writes may be in the log.
        case outcomeUnknown
    }

    /// The result of an effect.
    enum Event: Hashable, Sendable {
        case connected
        /// `hasMoved`: the snapshot differs from the one on which the lost batch was evaluated.
        case searched(isFound: Bool, hasMoved: Bool)
        /// The batches of the applied entries. `isComplete`: the snapshot advanced by exactly these batches; false if
        /// the tree was reloaded.
        case followed([[UInt8]], isComplete: Bool)
        /// `isHeld`: the lock is held and the snapshot is the newest state. Otherwise the lock was released.
        case locked(isHeld: Bool, [[UInt8]])
        /// `hasRecords`: at least one write is accepted and changes the tree.
        case evaluated(batch: [UInt8], hasRecords: Bool)
        case headChecked(isNewest: Bool)
        case committed
        case alreadyClaimed
        case headMoved
        /// The namespace follows an upstream. The next evaluation knows that.
        case following
        /// The batch's upstream messages are not the next ones, or another gateway follows. The next evaluation refuses
        /// them.
        case superseded
        case done
        /// Replaces any other event, for effects that use the database.
        case failed(Failure, Circumstances)
    }

    /// The consequence of a failure for the effect in progress.
    enum Failure: Hashable, Sendable {
        /// The connection was lost, or the server committed without its standby. The statements may have been executed,
        /// and may be rolled back.
        case connectionLost
        /// The lock of another session was in the way. Nothing was written.
        case lockConflict
        /// No entry was written, and another attempt is useless.
        case other
    }

    /// Further facts that decide after a failure.
    struct Circumstances: Hashable, Sendable {
        /// Monotonic milliseconds.
        let now: Milliseconds
        /// Whether the database answered the last query of any connection.
        let isDatabaseUp: Bool
        /// Whether trying again is no use: the engine stops, or the namespace has ended.
        let isStopping: Bool
    }

    private enum State: Hashable, Sendable {
        case idle, connecting, locking, checkingHead, forgettingClaims, pausing, ended
        case searching(lost: Int)
        case following(Purpose)
        case unlocking(Purpose)
        case evaluating(isLocked: Bool)
        case sending
        case keepingLost(Recovery)
        case recovering(Recovery)
    }

    /// The reason for a step that can have several reasons.
    private enum Purpose: Hashable, Sendable {
        /// The lost batch was not found.
        case notFound
        /// This lost batch was found; the rest of the log is followed.
        case found(lost: Int)
        /// The head had moved when the batch arrived.
        case conflict
        /// The head had moved when it was checked.
        case oldHead
        /// All writes were refused.
        case refusal
    }

    private struct Recovery: Hashable, Sendable {
        let isConnectionLost: Bool
        let continues: Bool
    }

    /// Batches evaluated under the head's lock cannot conflict; before the third attempt, the lock is not worth its
    /// round trip.
    private static let attemptsWithoutLock = 2

    private let deadline: Milliseconds
    private let isContended: Bool
    private var state = State.idle
    private var attempt = 0
    private var current: [UInt8] = []
    /// The ids of batches that were sent and have an unknown outcome. Any of them may be written until one is, or until
    /// the head has moved past all of them.
    private var lost: [[UInt8]] = []
    private var hasReconnected = false

    /// - Parameters:
    ///   - deadline: the monotonic millisecond after which no further attempt is made.
    ///   - isContended: whether others wrote to the namespace lately.
    init(deadline: Milliseconds, isContended: Bool) {
        self.deadline = deadline
        self.isContended = isContended
    }

    /// Returns the first effect.
    mutating func start() -> Effect {
        state = .connecting
        return .connect(isRetry: false)
    }

    /// Accepts the result of the last effect and returns the next one.
    mutating func handle(_ event: Event) -> Effect {
        if case .failed(let failure, let circumstances) = event { return failed(failure, circumstances) }
        switch (state, event) {
        case (.connecting, .connected): return lost.isEmpty ? lockOrEvaluate() : search(lost: lost.count - 1)
        case (.searching(let index), .searched(let isFound, let hasMoved)):
            // The machine searches for all lost batches every time: a batch that arrived late may have been followed
            // when the writes could not be answered.
            guard isFound else { return index > 0 ? search(lost: index - 1) : follow(.notFound) }
            // If the snapshot has moved, at least a part of the batch was followed before the connection was lost once
            // more.
            return hasMoved ? follow(.found(lost: index)) : end(.publish(.lost(index)))
        case (.following(let purpose), .followed(let batches, let isComplete)):
            return followed(batches, isComplete, purpose)
        case (.locking, .locked(let isHeld, let batches)): return locked(isHeld, batches)
        case (.evaluating(let isLocked), .evaluated(let batch, let hasRecords)):
            current = batch
            return evaluated(hasRecords, isLocked: isLocked)
        case (.checkingHead, .headChecked(let isNewest)): return isNewest ? forgetClaims() : follow(.oldHead)
        case (.unlocking(let purpose), .done):
            if case .found(let index) = purpose { return search(lost: index) }
            return forgetClaims()
        case (.forgettingClaims, .done): return end(.answer(.current))
        case (.sending, .committed): return end(.publish(.current))
        case (.sending, .alreadyClaimed): return end(.answerClaimed)
        case (.sending, .headMoved), (.sending, .following), (.sending, .superseded): return follow(.conflict)
        case (.keepingLost(let recovery), .done): return recover(recovery)
        case (.recovering(let recovery), .done): return recovered(recovery)
        case (.pausing, .done): return tryAgain(isRetry: false)
        default: preconditionFailure("\(event) is not an answer in the state \(state)")
        }
    }

    // MARK: One attempt

    private mutating func tryAgain(isRetry: Bool) -> Effect {
        attempt = min(attempt + 1, Self.attemptsWithoutLock)
        state = .connecting
        return .connect(isRetry: isRetry)
    }

    private mutating func search(lost index: Int) -> Effect {
        state = .searching(lost: index)
        return .search(lost: index)
    }

    private mutating func follow(_ purpose: Purpose) -> Effect {
        state = .following(purpose)
        return .follow
    }

    private mutating func followed(_ batches: [[UInt8]], _ isComplete: Bool, _ purpose: Purpose) -> Effect {
        if case .found(let index) = purpose { return end(.answer(.lost(index))) }
        if let index = foundLost(among: batches) { return search(lost: index) }
        switch purpose {
        case .conflict: return tryAgain(isRetry: true)
        case .oldHead: return tryAgain(isRetry: false)
        case .notFound, .found, .refusal:
            // One of the lost batches may have arrived after the search for it.
            return isComplete ? lockOrEvaluate() : search(lost: lost.count - 1)
        }
    }

    private mutating func lockOrEvaluate() -> Effect {
        if isContended || attempt >= Self.attemptsWithoutLock {
            state = .locking
            return .lockHead
        }
        return evaluate(isLocked: false)
    }

    private mutating func locked(_ isHeld: Bool, _ batches: [[UInt8]]) -> Effect {
        if let index = foundLost(among: batches) {
            return isHeld ? unlock(.found(lost: index)) : search(lost: index)
        }
        return isHeld ? evaluate(isLocked: true) : tryAgain(isRetry: false)
    }

    private mutating func evaluate(isLocked: Bool) -> Effect {
        state = .evaluating(isLocked: isLocked)
        return .evaluate(isRepeated: !lost.isEmpty)
    }

    private mutating func evaluated(_ hasRecords: Bool, isLocked: Bool) -> Effect {
        if hasRecords {
            state = .sending
            return .send(isLocked: isLocked)
        }
        // No transaction proves that the refusals are based on the newest state: either the lock proves it, or the head
        // is checked.
        if isLocked { return unlock(.refusal) }
        state = .checkingHead
        return .checkHead
    }

    private mutating func unlock(_ purpose: Purpose) -> Effect {
        state = .unlocking(purpose)
        return .unlockHead
    }

    private mutating func forgetClaims() -> Effect {
        state = .forgettingClaims
        return .forgetClaims
    }

    private func foundLost(among batches: [[UInt8]]) -> Int? {
        if lost.isEmpty { return nil }
        return lost.firstIndex { batches.contains($0) }
    }

    private mutating func end(_ effect: Effect) -> Effect {
        state = .ended
        return effect
    }

    // MARK: Failures

    private mutating func failed(_ failure: Failure, _ now: Circumstances) -> Effect {
        let wasLost = state == .sending && failure == .connectionLost
        if wasLost { lost.append(current) }
        // The connection may date from before an outage that is over; nothing was sent over it yet.
        let isOld = failure == .connectionLost && !hasReconnected && now.isDatabaseUp
        hasReconnected = hasReconnected || isOld
        // Otherwise only a batch that may have been written, and one that another session's lock blocked, justify
        // further attempts.
        let isWorthwhile = !lost.isEmpty || failure == .lockConflict || isOld
        let recovery = Recovery(
            isConnectionLost: failure == .connectionLost,
            continues: isWorthwhile && now.now < deadline && !now.isStopping)
        guard wasLost else { return recover(recovery) }
        state = .keepingLost(recovery)
        return .keepLost
    }

    private mutating func recover(_ recovery: Recovery) -> Effect {
        state = .recovering(recovery)
        return recovery.isConnectionLost ? .dropConnection : .reportFailure
    }

    private mutating func recovered(_ recovery: Recovery) -> Effect {
        guard recovery.continues else { return end(.fail(lost.isEmpty ? .asReported : .outcomeUnknown)) }
        state = .pausing
        return .pause
    }
}
