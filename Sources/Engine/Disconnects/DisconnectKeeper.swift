import LogStore
public import Rules
import Runtime
public import Tree

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

/// The onDisconnect operations of a realtime session: what is executed when the session ends.
public struct DisconnectOperations: Sendable {
    public let id: String
    public let namespace: LiveNamespace
    /// The lease of this gateway under which the session began.
    public let lease: LeaseNumber
    /// Each is one write; server values unresolved.
    public let operations: [[Change]]
    /// Whom the rules judge.
    public let auth: AuthContext
    /// Who it is, for the log.
    public let origin: Origin?

    public init(
        id: String, namespace: LiveNamespace, lease: LeaseNumber, operations: [[Change]], auth: AuthContext,
        origin: Origin?
    ) {
        self.id = id
        self.namespace = namespace
        self.lease = lease
        self.operations = operations
        self.auth = auth
        self.origin = origin
    }

    /// As the database keeps it.
    var stored: StoredSession {
        StoredSession(
            namespace: namespace.id, namespaceName: namespace.name, id: id, operations: operations,
            isAdmin: auth.isAdmin,
            auth: auth.auth, origin: origin)
    }
}

/// What became of a save of a session's onDisconnect operations.
public enum SaveOutcome: Sendable, Equatable {
    /// They are in the database.
    case saved
    /// They are not, and never will be.
    case refused
    /// The session is over: other gateways have executed what it had asked for before, or will. It must be closed, so that
    /// its client asks anew.
    case over
    /// The database went away before it answered: they may be there, or come to be. The session must be ended.
    case unknown
}
