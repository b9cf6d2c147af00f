import LogStore
import Runtime

/// Keeps what realtime sessions want done when they end in PostgreSQL, so that it is done whatever happens to this
/// gateway; does it when they end; and does it for the sessions of gateways that died. One thread, one connection
/// (`SessionWorker`); its jobs run in the order in which they were given.
public final class SessionKeeper: Sendable {
    private struct State {
        var jobs: [SessionJob] = []
        /// What is tried again at the next beat.
        var retries: [SessionJob] = []
        /// Orders that could not be carried out yet, as the database was away.
        var unfinished = 0
        var lease = SessionLease(number: 1)
        var onLeaseLost: (@Sendable () -> Void)?
    }

    private let core: EngineCore
    private let state = Condition(State())

    init(_ core: EngineCore) { self.core = core }

    /// The lease under which sessions begin now.
    public var lease: SessionLease { state.withLock { $0.lease } }

    /// Called when other gateways have taken this one for dead, and done what its sessions had asked for: they must be
    /// closed, so that their clients say anew what they want.
    public func onLeaseExpired(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onLeaseLost = body }
    }

    /// Stores a session's operations; calls back with whether that was done, as soon as that is certain. A session's next save
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
        add(.save(SavingSession(save: save, lease: session.lease, completion: completion)))
    }

    /// Carries out the operations of a session that has ended, after whatever of it is still being saved, and forgets it.
    public func end(_ session: DisconnectOperations, _ completion: @escaping @Sendable () -> Void = {}) {
        state.broadcast { state in
            state.unfinished += 1
            state.jobs.append(
                .end(EndingSession(session: session.stored, lease: session.lease, completion: completion)))
        }
    }

    /// Carries out the operations of a session that its client says is over, on whichever gateway it was.
    public func adopt(_ id: String, in namespace: LiveNamespace, _ completion: @escaping @Sendable () -> Void) {
        add(.adopt(AdoptedSession(namespace: namespace, id: id, triesLeft: 5, completion: completion)))
    }

    func tell(_ message: PeerMessage) { add(.tell(message)) }

    /// Waits until the operations of all ended sessions are carried out; at most so long.
    func waitUntilDone(milliseconds: Int64) {
        _ = state.wait(milliseconds: milliseconds) { $0.unfinished == 0 ? true : nil }
    }

    func wake() { state.broadcast { _ in } }

    func run() { SessionWorker(core, self).run() }

    // MARK: For the worker

    enum Next: Sendable {
        case job(SessionJob)
        case beat
        case stop
    }

    /// The next job; at the latest at the next beat.
    func next(milliseconds: Int64) -> Next {
        let next = state.wait(milliseconds: milliseconds) { state -> Next? in
            if core.stopsNow { return .stop }
            return state.jobs.isEmpty ? nil : .job(state.jobs.removeFirst())
        }
        return next ?? .beat
    }

    func add(_ job: SessionJob) { state.broadcast { $0.jobs.append(job) } }

    /// Has a job wait until the database has answered.
    func retry(_ job: SessionJob) { state.withLock { $0.retries.append(job) } }

    func takeUpRetries() {
        state.withLock { state in
            state.jobs.append(contentsOf: state.retries)
            state.retries.removeAll()
        }
    }

    /// From now on sessions begin under another lease; those of this one must go.
    func leaseLost() {
        let body = state.withLock { state -> (@Sendable () -> Void)? in
            state.lease = state.lease.next
            return state.onLeaseLost
        }
        body?()
    }

    /// An ended session of this gateway is done with.
    func finished() { state.broadcast { $0.unfinished -= 1 } }
}
