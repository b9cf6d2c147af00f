import LogStore
import Postgres
import Runtime

/// Commits batches of a namespace one after another, with several in flight at once: while the database commits one
/// batch, the next is evaluated on the expected tree and sent after it on the same connection.
///
/// Each batch requires that it directly follows the previous one, by that batch's id, so a batch is in the log only if
/// those before it are. Listeners and writers are notified of a batch only after the database has confirmed it, in the
/// order of the batches. If a batch is not committed at once, the evaluation of those after it was useless: that batch
/// continues by its machine, and the writes of the others are queued again.
struct CommitChain {
    private struct Member {
        var commit: BatchCommit
        /// The start of its evaluation and the time at which it was sent, in monotonic nanoseconds.
        let began: UInt64
        let sent: UInt64

        var writes: Int { commit.progress.waiting.count }
    }

    private let context: CommitterContext
    private let namespace: LiveNamespace
    private var inFlight: [Member] = []
    /// A batch that cannot be sent after others, and with which the chain ends.
    private var held: [WriteQueue.Waiting] = []

    init(_ context: CommitterContext, _ namespace: LiveNamespace) {
        self.context = context
        self.namespace = namespace
    }

    private var core: EngineCore { context.core }

    /// Returns when the writes of the first batch, and those taken after it, are answered or queued again.
    mutating func run(_ first: BatchProgress) {
        add(first)
        while let next = inFlight.first {
            switch takeMore() {
            case .taken: continue
            // If the connection is lost here, receiving the batch reports that again.
            case .notYet: if (try? next.commit.awaitOutcome(wake: context.wake)) == false { continue }
            case .no: break
            }
            receive()
        }
        endHeld()
    }

    private func endHeld() {
        guard !held.isEmpty else { return }
        // No committer takes writes from the queue of a namespace that has ended.
        if namespace.hasEnded {
            return context.answers.fail(held, namespace.meaning(of: .unknownNamespace(namespace.name)))
        }
        namespace.putBack(held)
    }

    private mutating func add(_ progress: BatchProgress) {
        let began = Clock.monotonicNanoseconds
        var commit = BatchCommit(progress, context)
        commit.resume(while: \.isPreparation)
        guard commit.isToBeSentAhead else {
            if inFlight.isEmpty {
                commit.run()
                ended(commit, since: began)
            } else {
                held = progress.waiting
            }
            return
        }
        let sent = Clock.monotonicNanoseconds
        do throws(LogStoreError) {
            try commit.sendAhead()
            if !inFlight.isEmpty { core.metrics.pipelinedBatches.add() }
            inFlight.append(Member(commit: commit, began: began, sent: sent))
        } catch  where error.isConnectionLost {
            inFlight.append(Member(commit: commit, began: began, sent: sent))
            var lost: [Member] = []
            swap(&lost, &inFlight)
            lose(lost, .failure(error), after: false)
        } catch {
            // The batch cannot be sent at all: its machine gets the same error and reports it.
            if inFlight.isEmpty {
                commit.run()
                ended(commit, since: began)
            } else {
                held = progress.waiting
            }
        }
    }

    // MARK: Taking more

    private enum Taking {
        case taken
        /// More writes are expected; the queue wakes the committer when they are there.
        case notYet
        case no
    }

    private mutating func takeMore() -> Taking {
        guard held.isEmpty, inFlight.count < core.settings.batchesInFlight, !core.jobs.isWaitedFor, core.health.isUp,
            let last = inFlight.last?.commit, last.isOut, !last.isAnswered,
            let base = last.progress.current?.snapshot
        else { return .no }
        switch namespace.takePipelinedTask(base.seq, wake: context.wake) {
        case .batch(let batch):
            // Batches that are sent by COPY take several round trips.
            guard batch.reduce(0, { $0 + $1.write.rowCount }) <= core.connectionSettings.copyThreshold else {
                held = batch
                return .no
            }
            add(BatchProgress(batch, in: namespace, isContended: false, base: base))
            return .taken
        case .notYet: return .notYet
        case .no: return .no
        }
    }

    // MARK: Outcomes

    private mutating func receive() {
        namespace.endDelay()
        var first = inFlight.removeFirst()
        let outcome = first.commit.receive()
        var following: [Member] = []
        if !outcome.isCommitted { swap(&following, &inFlight) }
        // The connection cannot be used for anything else until all outcomes are received.
        let others = outcome.isLost ? following.map { _ in outcome } : following.map { $0.commit.receive() }
        first.commit.end(with: outcome, since: first.sent)
        ended(first.commit, since: first.began)
        // A batch is written only if the previous one is. If the outcomes seem to contradict that, the log is searched.
        let isLost = others.contains { $0.isLost || $0.isCommitted }
        if isLost {
            lose(following, outcome, after: first.commit.progress.isUnknown)
        } else {
            held = following.flatMap(\.commit.progress.waiting) + held
        }
    }

    /// Handles batches whose connection was lost: their outcomes are unknown, and are searched for one after another.
    ///
    /// - Parameter isUnknown: whether the previous batch, on which the first of these was evaluated, may still be
    ///   written.
    private func lose(
        _ lost: [Member], _ outcome: Result<LogConnection.CommitOutcome, LogStoreError>, after isUnknown: Bool
    ) {
        var isUnknown = isUnknown
        for var member in lost {
            if isUnknown {
                member.commit.giveUp()
            } else {
                member.commit.lose(outcome)
                isUnknown = member.commit.progress.isUnknown
            }
            ended(member.commit, since: member.began)
        }
    }

    private func ended(_ commit: BatchCommit, since began: UInt64) {
        namespace.batchEnded(
            writes: commit.progress.waiting.count, inFlight: inFlight.reduce(0) { $0 + $1.writes }, since: began)
    }
}

extension Result<LogConnection.CommitOutcome, LogStoreError> {
    fileprivate var isCommitted: Bool { (try? get()) == .committed }

    fileprivate var isLost: Bool {
        if case .failure(let error) = self { error.isConnectionLost } else { false }
    }
}

/// Sends a batch now and receives its outcome later, for `CommitChain`.
extension BatchCommit {
    /// Whether the batch is evaluated and can be sent without waiting.
    var isToBeSentAhead: Bool {
        guard progress.next == .send(isLocked: false), let current = progress.current, let connection else {
            return false
        }
        // While other batches are in flight, the connection cannot be used to check whether refused writes were
        // executed before.
        return connection.canSend(current.batch) && !(progress.base != nil && current.refusesNamed)
    }

    /// Whether the connection that sent the batch is open and has nothing left to send.
    var isOut: Bool { connection.map { $0.isOpen && $0.areCommitsOut } ?? false }

    /// Whether an answer to the first batch in flight has begun to arrive.
    var isAnswered: Bool { connection?.isCommitAnswered ?? true }

    /// Sends the batch after those in flight on the committer's connection.
    mutating func sendAhead() throws(LogStoreError) {
        guard let connection, let current = progress.current else { preconditionFailure("the batch is not evaluated") }
        // If the batch is evaluated again, its base has been published by then, or never will be.
        progress.base = nil
        try connection.sendCommit(current.batch)
    }

    /// Waits until the outcome of the first batch in flight begins to arrive; returns false if the committer is woken
    /// before.
    func awaitOutcome(wake: WakeHandle) throws(LogStoreError) -> Bool {
        guard let connection else { return true }
        return try waiting(on: connection) { () throws(LogStoreError) in try connection.awaitCommit(wake: wake) }
    }

    /// Receives the outcome of the batch, which must be the first one in flight.
    func receive() -> Result<LogConnection.CommitOutcome, LogStoreError> {
        guard let connection else { preconditionFailure("nothing was sent") }
        return Result { () throws(LogStoreError) in
            try waiting(on: connection) { () throws(LogStoreError) in try connection.receiveCommit() }
        }
    }

    private func waiting<Value>(
        on connection: LogConnection, _ body: () throws(LogStoreError) -> Value
    ) throws(LogStoreError) -> Value {
        context.core.blockers.enter(context.index, pid: connection.backendPID)
        defer { context.core.blockers.leave(context.index) }
        return try body()
    }

    /// Continues the batch with its outcome until it ends.
    mutating func end(with outcome: Result<LogConnection.CommitOutcome, LogStoreError>, since start: UInt64) {
        switch outcome {
        case .success(let outcome): take(outcome, since: start)
        case .failure(let error): take(.failed(CommitMachine.Failure(error), context.circumstances), error: error)
        }
        run()
    }

    /// Continues the batch until it ends, by a search for its outcome in the log.
    mutating func lose(_ outcome: Result<LogConnection.CommitOutcome, LogStoreError>) {
        var error: LogStoreError?
        // A local commit that the server reported for the first batch does not apply to this one.
        if case .failure(let failure) = outcome, !failure.isLocalCommit { error = failure }
        take(.failed(.connectionLost, context.circumstances), error: error)
        run()
    }

    /// Fails the writes with an unknown outcome: the batch may be written as long as its base may be, and the outcome
    /// of the base is unknown.
    func giveUp() {
        context.core.metrics.unknownCommits.add()
        context.answers.fail(progress.waiting, .outcomeUnknown)
    }
}
