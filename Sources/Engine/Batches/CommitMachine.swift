import Runtime

/// Decides what is done with one batch, from the writes that wait until they are answered. Pure: it has no connection and no
/// clock; `BatchCommit` does what it says and tells it what came of that.
///
/// The usual way of a batch is: evaluate the writes on the snapshot, send, publish, answer. It differs in these cases:
///
/// - The head had moved: others have written. Their entries are followed and the writes are evaluated again. From the third
///   attempt on, and where others were writing lately, the head's lock is taken before the writes are evaluated.
/// - The connection was lost after the batch was sent. The batch may be in the log, may get there later, or never. On a new
///   connection the log is searched for it. If it isn't there, the writes are sent again, as another batch, and whatever is
///   followed from then on is compared with all batches that were lost. At most one of them is ever written: as soon as one
///   is, the head is not where the others need it to be.
/// - The connection was lost, or the server has told that it has committed alone. Having read a batch in the log is no reason to
///   answer: only the search for it waits for the synchronous standbys, as it takes the head's lock in a transaction of its own.
/// - All writes were refused. That is told only if it is certain that the snapshot is the newest state.
/// - The database fails. Writes of which nothing was sent fail after one attempt on a new connection. What may have been
///   written is searched for until the writes' deadline; after that their outcome is unknown.
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
///                       headMoved                               following
///     any               failed                                  recovering; keepingLost before it if the
///                                                               connection was lost while sending
///     recovering        another attempt is worthwhile           pausing, connecting
///                       the deadline has passed, the engine     ended: fail
///                       stops, or an attempt can gain nothing
struct CommitMachine: Hashable, Sendable {
    /// What is to be done next. Each is answered by one event, except the last four, which end the batch.
    enum Effect: Hashable, Sendable {
        /// Get a connection, if there is none. Answered by `connected`.
        case connect(isRetry: Bool)
        /// Look for a lost batch in the log, behind whatever is writing there now. Answered by `searched`.
        case search(lost: Int)
        /// Apply what the log has after the snapshot. Answered by `followed`.
        case follow
        /// Take the head's lock and apply what the log has after the snapshot. Answered by `locked`.
        case lockHead
        /// Give the head's lock back. Answered by `done`.
        case unlockHead
        /// Evaluate the writes on the snapshot. Answered by `evaluated`.
        ///
        /// `isRepeated`: at the instant of the first lost batch. Rules may look at the time, and writes that were accepted,
        /// and sent, must not be refused on the same tree: their batch may still be written.
        case evaluate(isRepeated: Bool)
        /// Ask whether the snapshot is still the newest state. Answered by `headChecked`.
        case checkHead
        /// Remove the sessions whose operations were all refused. Answered by `done`.
        case forgetClaims
        /// Send what was evaluated. Answered by `committed`, `alreadyClaimed` or `headMoved`.
        case send(isLocked: Bool)
        /// Keep what was sent last: it is the next lost batch. Answered by `done`.
        case keepLost
        /// Close the connection. Answered by `done`.
        case dropConnection
        /// Log the error. Answered by `done`.
        case reportFailure
        /// Wait for a moment. Answered by `done`.
        case pause

        /// The batch is in the log, and is what follows the snapshot: publish what it was evaluated to and answer the writes.
        case publish(Sent)
        /// Answer the writes; there is nothing to publish.
        case answer(Sent)
        /// Another gateway has executed the operations of the session: answer so.
        case answerClaimed
        /// Answer the writes with an error.
        case fail(Failing)
    }

    /// Which of the evaluations the writes are answered by.
    enum Sent: Hashable, Sendable {
        /// The last one.
        case current
        /// The one whose batch was lost.
        case lost(Int)
    }

    /// How the writes fail.
    enum Failing: Hashable, Sendable {
        /// Nothing was written; the last error says why.
        case asReported
        /// A batch of theirs may be in the log.
        case outcomeUnknown
    }

    /// What came of an effect.
    enum Event: Hashable, Sendable {
        case connected
        /// `hasMoved`: the snapshot is another one than the lost batch was evaluated on.
        case searched(isFound: Bool, hasMoved: Bool)
        /// The batches of the entries that were applied. `isComplete`: those are all that the snapshot was brought up by; it
        /// isn't where the tree was loaded anew.
        case followed([[UInt8]], isComplete: Bool)
        /// `isHeld`: the lock is held and the snapshot is the newest state. Else it was given back.
        case locked(isHeld: Bool, [[UInt8]])
        /// `hasRecords`: at least one write is accepted and changes something.
        case evaluated(batch: [UInt8], hasRecords: Bool)
        case headChecked(isNewest: Bool)
        case committed
        case alreadyClaimed
        case headMoved
        case done
        /// Instead of any other event, for effects that use the database.
        case failed(Failure, Circumstances)
    }

    /// What a failure means for what was under way.
    enum Failure: Hashable, Sendable {
        /// The connection is gone, or the server has committed alone. What was sent may have been done, and may be taken back.
        case connectionLost
        /// Somebody else's lock was in the way. Nothing was written.
        case lockConflict
        /// Nothing was written, and trying again is no use.
        case other
    }

    /// What else counts when something has failed.
    struct Circumstances: Hashable, Sendable {
        /// Monotonic milliseconds.
        let now: Milliseconds
        /// Whether the database was there when it was last asked by anybody.
        let isDatabaseUp: Bool
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

    /// Why something is done that can have several reasons.
    private enum Purpose: Hashable, Sendable {
        /// The lost batch was not found.
        case notFound
        /// This lost batch was found; the rest of it is followed.
        case found(lost: Int)
        /// The head had moved when the batch arrived.
        case conflict
        /// The head had moved when it was looked at.
        case oldHead
        /// All writes were refused.
        case refusal
    }

    private struct Recovery: Hashable, Sendable {
        let isConnectionLost: Bool
        let goesOn: Bool
    }

    /// Batches evaluated under the head's lock wait for nobody; before the third attempt, the lock is not worth its round trip.
    private static let attemptsWithoutLock = 2

    private let deadline: Milliseconds
    private let isContended: Bool
    private var state = State.idle
    private var attempt = 0
    private var current: [UInt8] = []
    /// The ids of batches that were sent and whose outcome isn't known. Any of them may be written until one is or the head has
    /// moved past them all.
    private var lost: [[UInt8]] = []
    private var hasReconnected = false

    /// - Parameters:
    ///   - deadline: the monotonic millisecond after which nothing is tried again.
    ///   - isContended: whether others were writing to the namespace lately.
    init(deadline: Milliseconds, isContended: Bool) {
        self.deadline = deadline
        self.isContended = isContended
    }

    /// The first effect.
    mutating func start() -> Effect {
        state = .connecting
        return .connect(isRetry: false)
    }

    /// Takes what came of the last effect and returns the next one.
    mutating func handle(_ event: Event) -> Effect {
        if case .failed(let failure, let circumstances) = event { return failed(failure, circumstances) }
        switch (state, event) {
        case (.connecting, .connected): return lost.isEmpty ? lockOrEvaluate() : search(lost: lost.count - 1)
        case (.searching(let index), .searched(let isFound, let hasMoved)):
            // Each of them is searched for every time: one that came late may have been followed when nobody could be told.
            guard isFound else { return index > 0 ? search(lost: index - 1) : follow(.notFound) }
            // Then it was followed, at least in part, before the connection was lost once more.
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
        case (.sending, .headMoved): return follow(.conflict)
        case (.keepingLost(let recovery), .done): return recover(recovery)
        case (.recovering(let recovery), .done): return recovered(recovery)
        case (.pausing, .done): return tryAgain(isRetry: false)
        default: preconditionFailure("\(event) is no answer in the state \(state)")
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
            // One of them may have come after it was searched for.
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
        // No transaction says that the refusals are of the newest state: the lock does, or somebody has to look.
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
        // The connection may be one of before an outage that is over: nothing was sent yet.
        let isOld = failure == .connectionLost && !hasReconnected && now.isDatabaseUp
        hasReconnected = hasReconnected || isOld
        // Else only a batch that may have been written is worth waiting for, and one that somebody's lock kept out.
        let isWorthwhile = !lost.isEmpty || failure == .lockConflict || isOld
        let recovery = Recovery(
            isConnectionLost: failure == .connectionLost,
            goesOn: isWorthwhile && now.now < deadline && !now.isStopping)
        guard wasLost else { return recover(recovery) }
        state = .keepingLost(recovery)
        return .keepLost
    }

    private mutating func recover(_ recovery: Recovery) -> Effect {
        state = .recovering(recovery)
        return recovery.isConnectionLost ? .dropConnection : .reportFailure
    }

    private mutating func recovered(_ recovery: Recovery) -> Effect {
        guard recovery.goesOn else { return end(.fail(lost.isEmpty ? .asReported : .outcomeUnknown)) }
        state = .pausing
        return .pause
    }
}
