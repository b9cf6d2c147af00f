import LogStore
public import Rules
public import Tree

/// A realtime session and what it wants done when it ends.
public struct DisconnectOperations: Sendable {
    public let id: String
    public let namespace: LiveNamespace
    /// The one under which the session began.
    public let lease: SessionLease
    /// Each is one write; server values unresolved.
    public let operations: [[Change]]
    /// Whom the rules judge.
    public let auth: AuthContext
    /// Who it is, for the log.
    public let origin: Origin?

    public init(
        id: String, namespace: LiveNamespace, lease: SessionLease, operations: [[Change]], auth: AuthContext,
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

/// Which of a gateway's leases: they are counted. What belongs to an earlier one than now has been carried out by others.
public struct SessionLease: Sendable, Equatable {
    let number: Int

    var next: SessionLease { SessionLease(number: number + 1) }
}

/// What became of a save of a session's operations.
public enum SaveOutcome: Sendable, Equatable {
    /// They are in the database.
    case saved
    /// They are not, and never will be.
    case refused
    /// The session is over: others have carried out what it had asked for before, or will. It must be closed, so that its
    /// client says anew what it wants.
    case over
    /// The database went away before it said: they may be there, or come to be. The session must be ended.
    case unknown
}
