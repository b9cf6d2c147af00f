import LogStore
import Rules
import Tree

/// A session of this gateway that has ended, with its operations from memory.
struct EndedSession: Sendable {
    let session: StoredSession
    /// The lease under which the session began.
    let lease: LeaseNumber
    let completion: @Sendable () -> Void
}

/// A session that its client has declared over, on whichever gateway it was.
struct SessionTakeover: Sendable {
    let namespace: LiveNamespace
    let id: String
    /// How many more times its operations may be read again.
    let triesLeft: Int
    let completion: @Sendable () -> Void
}

/// Executes onDisconnect operations, as one write per session. The session's row is removed in the same transaction, so
/// the operations are executed once, however many gateways try. Belongs to the lease's thread; the outcomes arrive on
/// committers' threads.
final class DisconnectExecutor {
    private let core: EngineCore
    private let leases: GatewayLeases
    private let keeper: DisconnectKeeper
    private let jobs: LeaseJobs

    /// Maximum number of orphaned sessions per query.
    private static let orphansAtOnce = 1_000

    init(_ core: EngineCore, _ leases: GatewayLeases, _ keeper: DisconnectKeeper, _ jobs: LeaseJobs) {
        self.core = core
        self.leases = leases
        self.keeper = keeper
        self.jobs = jobs
    }

    /// Executes the operations of a session of this gateway that has ended.
    func execute(
        _ ended: EndedSession, _ connection: LogConnection, _ lease: GatewayLease
    ) throws(LogStoreError) {
        let done = { @Sendable [keeper] in
            keeper.finished()
            ended.completion()
        }
        // A session of an earlier lease is left to the gateway that finds its row without a lease.
        guard ended.lease == leases.current else { return done() }
        let claim = SessionClaim(session: ended.session.id, gateway: lease.gateway, save: nil)
        try submit(ended.session, claim, connection) { [jobs] outcome in
            switch ExecutionMachine.next(after: outcome, of: .ended) {
            case .retry: jobs.retry(.execute(ended))
            case .done, .lookAgain: done()
            }
        }
    }

    /// Executes the operations of a session that may belong to another gateway, repeatedly while it has any.
    func takeOver(_ takeover: SessionTakeover, _ connection: LogConnection) throws(LogStoreError) {
        guard takeover.triesLeft > 0,
            let found = try connection.session(takeover.namespace.id, takeover.id)
        else { return takeover.completion() }
        try submit(found.session, found.claim, connection) { [jobs] outcome in
            switch ExecutionMachine.next(after: outcome, of: .takenOver(triesLeft: takeover.triesLeft)) {
            case .lookAgain(let triesLeft):
                jobs.add(
                    .takeOver(
                        SessionTakeover(
                            namespace: takeover.namespace, id: takeover.id, triesLeft: triesLeft,
                            completion: takeover.completion)))
            case .done, .retry: takeover.completion()
            }
        }
    }

    /// Executes the operations of sessions whose gateways no longer have a lease. Sessions that fail are found again by
    /// the next call.
    func executeOrphaned(_ connection: LogConnection) throws(LogStoreError) {
        for orphan in try connection.orphanedSessions(limit: Self.orphansAtOnce) {
            try submit(orphan.session, orphan.claim, connection) { _ in }
        }
    }

    private func submit(
        _ stored: StoredSession, _ claim: SessionClaim, _ connection: LogConnection,
        _ completion: @escaping @Sendable (WriteOutcome) -> Void
    ) throws(LogStoreError) {
        guard !stored.operations.isEmpty else {
            try connection.forgetSession(stored.namespace, claim)
            return completion(.committed(seq: 0, changes: []))
        }
        let auth = stored.isAdmin ? AuthContext.admin : AuthContext(auth: stored.auth)
        let write = Write(
            .disconnect(claim, operations: stored.operations), operation: .disconnect, hasServerValue: true,
            byteCount: 256, auth: auth, origin: stored.origin)
        let sink = OutcomeSink(completion)
        if let namespace = core.namespaces.live(id: stored.namespace) {
            return namespace.submit(write, to: sink, token: 0)
        }
        // Otherwise the request would create a new namespace with the same name.
        if try connection.wasRemoved(stored.namespace) { return completion(.committed(seq: 0, changes: [])) }
        let name = stored.namespaceName
        core.withNamespace(name) { result in
            switch result {
            case .success(let namespace): namespace.submit(write, to: sink, token: 0)
            case .failure(let error): sink.complete([(0, .failed(error))])
            }
        }
    }
}

/// Passes one outcome to a closure.
private final class OutcomeSink: WriteSink {
    private let body: @Sendable (WriteOutcome) -> Void

    init(_ body: @escaping @Sendable (WriteOutcome) -> Void) { self.body = body }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes { body(outcome) }
    }
}

/// Decides the next step after an attempt to execute a session's onDisconnect operations. Pure.
enum ExecutionMachine {
    /// The origin of the operations.
    enum Kind: Equatable {
        /// A session of this gateway has ended.
        case ended
        /// A client has declared a session over, on whichever gateway it was. The operations may be read again
        /// `triesLeft` times, as they may change while they are being executed.
        case takenOver(triesLeft: Int)
    }

    /// The next step.
    enum Next: Equatable {
        /// The session needs no further step.
        case done
        /// Try again after the next heartbeat: nothing was executed, or the claim prevents a second execution.
        case retry
        /// Check whether the session has a row again.
        case lookAgain(triesLeft: Int)
    }

    static func next(after outcome: WriteOutcome, of kind: Kind) -> Next {
        var failure: EngineError?
        if case .failed(let error) = outcome { failure = error }
        switch kind {
        case .ended:
            guard let failure, failure != .stopping else { return .done }
            return .retry
        case .takenOver(let triesLeft):
            // The operations were executed, or saved again meanwhile; the next check shows which.
            return failure == nil ? .lookAgain(triesLeft: triesLeft - 1) : .done
        }
    }
}
