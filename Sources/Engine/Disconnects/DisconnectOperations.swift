import LogStore
public import Rules
public import Tree

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
