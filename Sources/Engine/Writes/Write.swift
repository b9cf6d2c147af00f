public import LogStore
public import Rules
public import Tree

/// A write as a client requested it: its values may contain unresolved server values.
public struct Write: Sendable {
    public enum Action: Sendable {
        /// Replaces the value at the path; null removes it. The path may end in `.priority`.
        case set(Path, Node)
        /// Replaces several values below the base, all or none.
        case update(base: Path, [Change])
        /// Sets the namespace's rules.
        case rules(RuleSet)
        /// Executes a session's onDisconnect operations, each as a write of its own; denied ones are skipped. They are
        /// executed once, however many gateways try.
        case disconnect(SessionClaim, operations: [[Change]])
        /// Changes nothing: checks whether the write of this name was executed, and is refused if it was not.
        case recall
    }

    public let action: Action
    /// The hash that the value at the path must have (`""` for nothing), or nil.
    public let expectedHash: String?
    public let operation: Tree.Operation
    /// Whether it contains a server value.
    public let hasServerValue: Bool
    /// The approximate size of its values in bytes, for the limits of batches and queues.
    public let byteCount: Int
    /// Maximum number of rows that it may touch, if the client has set a limit.
    public let rowLimit: Int?
    /// The identity to which the rules apply.
    public let auth: AuthContext
    /// The author for the log.
    public let origin: Origin?
    /// The client's name for the write: a write whose name is already in the log is not executed again.
    public let name: WriteName?
    /// Whether its client waits for the outcome before it sends another write. A large write of such a client may be
    /// prepared separately, and other writes are executed before it.
    public var mayBeOvertaken: Bool
    /// The upstream message that the write contains, in a namespace that follows an upstream; nil for all other writes.
    public let upstream: UpstreamMark?

    public init(
        _ action: Action, operation: Tree.Operation, expectedHash: String? = nil, hasServerValue: Bool = false,
        byteCount: Int, rowLimit: Int? = nil, auth: AuthContext, origin: Origin? = nil, name: WriteName? = nil,
        mayBeOvertaken: Bool = false, upstream: UpstreamMark? = nil
    ) {
        self.upstream = upstream
        self.name = name
        self.mayBeOvertaken = mayBeOvertaken
        self.action = action
        self.operation = operation
        self.expectedHash = expectedHash
        self.hasServerValue = hasServerValue
        self.byteCount = byteCount
        self.rowLimit = rowLimit
        self.auth = auth
        self.origin = origin
    }

    /// The identity that owns writes under this writer name.
    var writerIdentity: WriterIdentity {
        if auth.isAdmin { return .administrator }
        // A viewer writes nothing, so no name is a viewer's.
        if auth.isViewer { return .user("viewer") }
        if auth.auth.isNull { return .anonymous }
        if case .string(let uid) = auth.auth.child(Key("uid")) { return .user("uid \(uid)") }
        return .user("auth \(auth.auth.hash)")
    }

    /// The number of rows that the write contains, plus the number of its paths.
    public var rowCount: Int {
        switch action {
        case .set(_, let node): node.rowCount + 1
        case .update(_, let changes): changes.reduce(changes.count) { $0 + $1.value.rowCount }
        case .rules, .disconnect, .recall: 0
        }
    }

    /// Whether the write would delay the other writes of its namespace for long. Called on event loops.
    func isLarge(_ settings: EngineSettings, _ root: Node) -> Bool {
        isLarge(bytes: settings.largeWriteBytes, rows: settings.largeWriteRows, root)
    }

    /// Whether the write has more than so many bytes, or touches more than so many rows.
    func isLarge(bytes: Int, rows most: Int, _ root: Node) -> Bool {
        if byteCount > bytes { return true }
        switch action {
        case .set(let path, let node): return Self.has(root, at: path, moreRowsThan: most - node.rowCount)
        case .update(let base, let changes):
            // Many paths mean many rows.
            if changes.count > most / 5 { return true }
            let brought = changes.reduce(0) { $0 + $1.value.rowCount }
            // The paths are below the base. If the whole base has few rows, the paths need not be checked.
            guard Self.has(root, at: base, moreRowsThan: most - brought) else { return false }
            return changes.reduce(brought) { $0 + root[$1.path].rowCount } > most
        case .rules, .disconnect, .recall: return false
        }
    }

    /// Whether there are more rows than `most` at a path. Descends only as far as necessary.
    private static func has(_ root: Node, at path: Path, moreRowsThan most: Int) -> Bool {
        var node = root
        for key in path.keys {
            guard node.rowCount > most else { return false }
            node = node.child(key)
        }
        return node.rowCount > most
    }

    /// Whether it has to be the only write of its SQL transaction.
    var goesAlone: Bool {
        if case .disconnect = action { true } else { false }
    }

    /// The path of the request.
    public var path: Path {
        switch action {
        case .set(let path, _): path
        case .update(let base, _): base
        case .rules, .disconnect, .recall: .root
        }
    }
}

/// The outcome of a write.
public enum WriteOutcome: Sendable {
    /// Durable in the log at `seq`. The changes have resolved server values, except sums of values that the writer may
    /// not read.
    case committed(seq: Int64, changes: [Change])
    /// The value at the path is not the expected one. `current` is the present value; nil if the writer may not read
    /// it.
    case preconditionFailed(seq: Int64, current: Node?)
    case denied(Denial)
    /// The write would touch more rows than its limit.
    case tooLarge
    /// The write cannot be applied to the present tree.
    case refused(String)
    case failed(EngineError)
}

/// Receives outcomes, in the order of the writes. Called on committers' threads; must return soon.
public protocol WriteSink: AnyObject, Sendable {
    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)])
}
