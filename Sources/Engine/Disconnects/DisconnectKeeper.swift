import LogStore
public import Rules
import Runtime
public import Tree

/// Keeps realtime sessions' onDisconnect operations in PostgreSQL, so that they are executed even if this gateway dies,
/// and has them executed when the sessions end. Any thread may use it; the lease's thread executes the jobs in the
/// order in which they were added.
public final class DisconnectKeeper: Sendable {
    private let jobs: LeaseJobs
    /// The number of ended sessions whose operations have not been executed yet.
    private let unfinished = Condition(0)

    /// Maximum number of times that a session's operations are read, as they may change while they are being executed.
    private static let takeoverTries = 5

    init(_ jobs: LeaseJobs) { self.jobs = jobs }

    /// Saves a session's operations, and calls back with the outcome as soon as it is certain. The session's next save
    /// must wait for the callback.
    ///
    /// - Parameters:
    ///   - number: greater than the number of any earlier save of the session.
    ///   - isFirst: whether none of the session's saves has succeeded yet.
    public func save(
        _ session: DisconnectOperations, number: Int64, isFirst: Bool,
        _ completion: @escaping @Sendable (SaveOutcome) -> Void
    ) {
        let save = SessionSave(session.stored, number: number, isFirst: isFirst)
        jobs.add(.save(SavingOperations(save: save, lease: session.lease, completion: completion)))
    }

    /// Executes the operations of an ended session, after all of its pending saves, and removes the session's row.
    public func execute(_ session: DisconnectOperations, _ completion: @escaping @Sendable () -> Void = {}) {
        unfinished.withLock { $0 += 1 }
        jobs.add(.execute(EndedSession(session: session.stored, lease: session.lease, completion: completion)))
    }

    /// Executes the operations of a session that its client has declared over, on whichever gateway it was.
    public func takeOver(_ id: String, in namespace: LiveNamespace, _ completion: @escaping @Sendable () -> Void) {
        jobs.add(
            .takeOver(
                SessionTakeover(
                    namespace: namespace, id: id, triesLeft: Self.takeoverTries, completion: completion)))
    }

    /// Waits until the operations of all ended sessions have been executed, at most `milliseconds`.
    func waitUntilDone(milliseconds: Milliseconds) {
        _ = unfinished.wait(milliseconds: milliseconds) { $0 == 0 ? true : nil }
    }

    /// Marks an ended session of this gateway as finished.
    func finished() { unfinished.broadcast { $0 -= 1 } }
}

/// The onDisconnect operations of a realtime session, which are executed when the session ends.
public struct DisconnectOperations: Sendable {
    public let id: String
    public let namespace: LiveNamespace
    /// The lease of this gateway under which the session began.
    public let lease: LeaseNumber
    /// The operations, each of which is one write, with unresolved server values.
    public let operations: [[Change]]
    /// The identity to which the rules apply.
    public let auth: AuthContext
    /// The identity for the log.
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

    /// The form that is stored in the database.
    var stored: StoredSession {
        StoredSession(
            namespace: namespace.id, namespaceName: namespace.name, id: id, operations: operations,
            isAdmin: auth.isAdmin,
            auth: auth.auth, origin: origin)
    }
}

/// The outcome of a save of a session's onDisconnect operations.
public enum SaveOutcome: Sendable, Equatable {
    /// The operations are in the database.
    case saved
    /// The operations are not in the database, and never will be.
    case refused
    /// The session is over: other gateways have executed the operations it had saved before, or will execute them. The
    /// session must be closed, so that its client reconnects and registers its operations again.
    case over
    /// The database became unavailable before it answered: the operations may be stored now or later. The session must
    /// be ended.
    case unknown
}
