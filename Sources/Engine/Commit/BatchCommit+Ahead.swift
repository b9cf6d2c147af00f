import LogStore
import Postgres
import Runtime

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
