import LogStore
import Postgres
import Runtime

/// Commits batches of a namespace one after another, with several under way at once: while the database commits one, the next is
/// evaluated on what the tree will be then, and sent behind it on the same connection.
///
/// Each batch expects to be right behind the one before it, by its id, so none is in the log unless those before it are. Nobody is told
/// of one before the database has said that it is committed: listeners and writers hear of them in their order. Where a batch is not
/// committed at once, those behind it were evaluated for nothing: it goes on by its machine, and their writes wait again.
struct CommitChain {
    private struct Member {
        var commit: BatchCommit
        /// When its evaluation began and when it was sent, in monotonic nanoseconds.
        let began: UInt64
        let sent: UInt64

        var writes: Int { commit.progress.waiting.count }
    }

    private let context: CommitterContext
    private let namespace: LiveNamespace
    private var underWay: [Member] = []
    /// A batch that can't be sent behind others, and with which the chain ends.
    private var held: [WriteQueue.Waiting] = []

    init(_ context: CommitterContext, _ namespace: LiveNamespace) {
        self.context = context
        self.namespace = namespace
    }

    private var core: EngineCore { context.core }

    /// Returns when these writes, and those that were taken behind them, are answered or wait again.
    mutating func run(_ first: BatchProgress) {
        add(first)
        while let next = underWay.first {
            switch takeMore() {
            case .taken: continue
            // Where the connection is lost meanwhile, that is told again when the batch is received.
            case .notYet: if (try? next.commit.awaitOutcome(wake: context.wake)) == false { continue }
            case .no: break
            }
            receive()
        }
        endHeld()
    }

    private func endHeld() {
        guard !held.isEmpty else { return }
        // Nobody takes anything from its queue any more, if all ends now.
        if namespace.hasEnded {
            return context.answers.fail(held, namespace.meaning(of: .unknownNamespace(namespace.name)))
        }
        namespace.putBack(held)
    }

    private mutating func add(_ progress: BatchProgress) {
        let began = Clock.monotonicNanoseconds
        var commit = BatchCommit(progress, context)
        commit.goOn(while: \.isPreparation)
        guard commit.isToBeSentAhead else {
            if underWay.isEmpty {
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
            if !underWay.isEmpty { core.metrics.batchesBehind.add() }
            underWay.append(Member(commit: commit, began: began, sent: sent))
        } catch  where error.isConnectionLost {
            underWay.append(Member(commit: commit, began: began, sent: sent))
            var lost: [Member] = []
            swap(&lost, &underWay)
            lose(lost, .failure(error), after: false)
        } catch {
            // It can't be sent at all: its machine meets that again, and says so.
            if underWay.isEmpty {
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
        /// More is expected: whoever brings it wakes the committer.
        case notYet
        case no
    }

    private mutating func takeMore() -> Taking {
        guard held.isEmpty, underWay.count < core.settings.batchesUnderWay, !core.jobs.isWaitedFor, core.health.isUp,
            let last = underWay.last?.commit, last.isOut, !last.isAnswered,
            let base = last.progress.current?.snapshot
        else { return .no }
        switch namespace.takeTaskBehind(base.seq, wake: context.wake) {
        case .batch(let batch):
            // Those by COPY take several round trips.
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

    // MARK: What became of them

    private mutating func receive() {
        namespace.stopGathering()
        var first = underWay.removeFirst()
        let outcome = first.commit.receive()
        var behind: [Member] = []
        if !outcome.isCommitted { swap(&behind, &underWay) }
        // The connection is of no other use before.
        let others = outcome.isLost ? behind.map { _ in outcome } : behind.map { $0.commit.receive() }
        first.commit.end(with: outcome, since: first.sent)
        ended(first.commit, since: first.began)
        // No batch is written unless the one before it is; where that seems to be otherwise, the log is asked.
        let isLost = others.contains { $0.isLost || $0.isCommitted }
        if isLost {
            lose(behind, outcome, after: first.commit.progress.isUnknown)
        } else {
            held = behind.flatMap(\.commit.progress.waiting) + held
        }
    }

    /// The connection was lost: what became of these is not known, and is looked for, one after the other.
    ///
    /// - Parameter isUnknown: whether the one before them, on which the first of them was judged, may still be written.
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
            writes: commit.progress.waiting.count, underWay: underWay.reduce(0) { $0 + $1.writes }, since: began)
    }
}

extension Result<LogConnection.CommitOutcome, LogStoreError> {
    fileprivate var isCommitted: Bool { (try? get()) == .committed }

    fileprivate var isLost: Bool {
        if case .failure(let error) = self { error.isConnectionLost } else { false }
    }
}

/// A batch that is sent, and whose outcome is received later: for `CommitChain`.
extension BatchCommit {
    /// Whether it is evaluated, and can be sent without waiting for anything.
    var isToBeSentAhead: Bool {
        guard progress.next == .send(isLocked: false), let current = progress.current, let connection else {
            return false
        }
        // Behind others nobody can be asked whether what was refused was done before.
        return connection.canSend(current.batch) && !(progress.base != nil && current.refusesNamed)
    }

    /// Whether the connection is there by which it was sent, and nothing waits to be sent.
    var isOut: Bool { connection.map { $0.isOpen && $0.areCommitsOut } ?? false }

    /// Whether an answer to the first batch under way has begun to arrive.
    var isAnswered: Bool { connection?.isCommitAnswered ?? true }

    /// Sends it behind those that are under way on the committer's connection.
    mutating func sendAhead() throws(LogStoreError) {
        guard let connection, let current = progress.current else { preconditionFailure("it is not evaluated") }
        // By the time it is evaluated again, if it is, what it was evaluated on is published, or never was.
        progress.base = nil
        try connection.sendCommit(current.batch)
    }

    /// Waits until what became of the first batch under way begins to arrive, or the committer is woken: false then.
    func awaitOutcome(wake: WakeHandle) throws(LogStoreError) -> Bool {
        guard let connection else { return true }
        return try waiting(on: connection) { () throws(LogStoreError) in try connection.awaitCommit(wake: wake) }
    }

    /// What became of it, which is the first one under way.
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

    /// Goes on with what became of it, to its end.
    mutating func end(with outcome: Result<LogConnection.CommitOutcome, LogStoreError>, since start: UInt64) {
        switch outcome {
        case .success(let outcome): take(outcome, since: start)
        case .failure(let error): take(.failed(CommitMachine.Failure(error), context.circumstances), error: error)
        }
        run()
    }

    /// Goes on to its end, as what became of it is to be looked for in the log.
    mutating func lose(_ outcome: Result<LogConnection.CommitOutcome, LogStoreError>) {
        var error: LogStoreError?
        // What the server has said of the first batch, it has not said of this one.
        if case .failure(let failure) = outcome, !failure.isLocalCommit { error = failure }
        take(.failed(.connectionLost, context.circumstances), error: error)
        run()
    }

    /// It may be written as long as the batch may be on which it was judged, and nobody knows whether that one is.
    func giveUp() {
        context.core.metrics.unknownCommits.add()
        context.answers.fail(progress.waiting, .outcomeUnknown)
    }
}
