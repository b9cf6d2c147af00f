import LogStore
import Runtime

/// Keeps realtime sessions' onDisconnect operations in PostgreSQL, so that they are executed whatever happens to this
/// gateway, and has them executed when the sessions end. Any thread may use it; the lease's thread does the work, in the
/// order in which it was asked for.
public final class DisconnectKeeper: Sendable {
    private let jobs: LeaseJobs
    /// Sessions that have ended and whose operations are not executed yet.
    private let unfinished = Condition(0)

    /// How often a session's operations are read anew, as they may change while they are being executed.
    private static let takeoverTries = 5

    init(_ jobs: LeaseJobs) { self.jobs = jobs }

    /// Saves a session's operations; calls back with what became of that, as soon as it is certain. A session's next save
    /// must wait for that.
    ///
    /// - Parameters:
    ///   - number: greater than that of any save of the session before.
    ///   - isFirst: none of the session's saves has succeeded.
    public func save(
        _ session: DisconnectOperations, number: Int64, isFirst: Bool,
        _ completion: @escaping @Sendable (SaveOutcome) -> Void
    ) {
        let save = SessionSave(session.stored, number: number, isFirst: isFirst)
        jobs.add(.save(SavingOperations(save: save, lease: session.lease, completion: completion)))
    }

    /// Executes the operations of a session that has ended, after whatever of it is still being saved, and forgets it.
    public func execute(_ session: DisconnectOperations, _ completion: @escaping @Sendable () -> Void = {}) {
        unfinished.withLock { $0 += 1 }
        jobs.add(.execute(EndedSession(session: session.stored, lease: session.lease, completion: completion)))
    }

    /// Executes the operations of a session that its client says is over, on whichever gateway it was.
    public func takeOver(_ id: String, in namespace: LiveNamespace, _ completion: @escaping @Sendable () -> Void) {
        jobs.add(
            .takeOver(
                SessionTakeover(
                    namespace: namespace, id: id, triesLeft: Self.takeoverTries, completion: completion)))
    }

    /// Waits until the operations of all ended sessions are executed; at most so long.
    func waitUntilDone(milliseconds: Milliseconds) {
        _ = unfinished.wait(milliseconds: milliseconds) { $0 == 0 ? true : nil }
    }

    /// An ended session of this gateway is done with.
    func finished() { unfinished.broadcast { $0 -= 1 } }
}
