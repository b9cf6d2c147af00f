public import LogStore
public import Rules
public import Tree

/// A write as a client asked for it: its values may still hold server values.
public struct Write: Sendable {
    public enum Action: Sendable {
        /// Replaces what is at the path (null: removes it). The path may end in `.priority`.
        case set(Path, Node)
        /// Replaces several places below the base, all or none.
        case update(base: Path, [Change])
        /// Makes these the namespace's rules.
        case rules(RuleSet)
        /// Executes a session's onDisconnect operations, each as a write of its own; a denied one is left out. They are
        /// executed once, whichever gateways try.
        case disconnect(SessionClaim, operations: [[Change]])
        /// Does nothing: asks whether the write of its name was done, and is refused where it was not.
        case recall
    }

    public let action: Action
    /// The hash that the value at the path must have (`""` for nothing), or nil.
    public let expectedHash: String?
    public let operation: Tree.Operation
    /// Whether anything in it is a server value.
    public let hasServerValue: Bool
    /// About the size of its values; for the bounds on batches and queues.
    public let byteCount: Int
    /// The most rows that it may touch, if the client has set a limit.
    public let rowLimit: Int?
    /// Whom the rules judge.
    public let auth: AuthContext
    /// Who makes it, for the log.
    public let origin: Origin?
    /// What its client calls it: a write of this name that is in the log already is not done again.
    public let name: WriteName?
    /// Whether its client waits for its outcome before it makes another: then, if it is large, it may be prepared beside
    /// others, which are done before it.
    public var mayBeOvertaken: Bool

    public init(
        _ action: Action, operation: Tree.Operation, expectedHash: String? = nil, hasServerValue: Bool = false,
        byteCount: Int, rowLimit: Int? = nil, auth: AuthContext, origin: Origin? = nil, name: WriteName? = nil,
        mayBeOvertaken: Bool = false
    ) {
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

    /// The identity that writes under its writer's name belong to.
    var writerIdentity: WriterIdentity {
        if auth.isAdmin { return .administrator }
        if auth.auth.isNull { return .nobody }
        if case .string(let uid) = auth.auth.child(Key("uid")) { return .user("uid \(uid)") }
        return .user("auth \(auth.auth.hash)")
    }

    /// The rows that it brings, and its places.
    public var rowCount: Int {
        switch action {
        case .set(_, let node): node.rowCount + 1
        case .update(_, let changes): changes.reduce(changes.count) { $0 + $1.value.rowCount }
        case .rules, .disconnect, .recall: 0
        }
    }

    /// Whether it would keep the others of its namespace waiting for long. Asked on event loops.
    func isLarge(_ settings: EngineSettings, _ root: Node) -> Bool {
        isLarge(bytes: settings.largeWriteBytes, rows: settings.largeWriteRows, root)
    }

    /// Whether it is of more than so many bytes, or touches more than so many rows.
    func isLarge(bytes: Int, rows most: Int, _ root: Node) -> Bool {
        if byteCount > bytes { return true }
        switch action {
        case .set(let path, let node): return Self.has(root, at: path, moreRowsThan: most - node.rowCount)
        case .update(let base, let changes):
            // Many places are many rows.
            if changes.count > most / 5 { return true }
            let brought = changes.reduce(0) { $0 + $1.value.rowCount }
            // The places are below the base: where all of that is little, they need not be looked at.
            guard Self.has(root, at: base, moreRowsThan: most - brought) else { return false }
            return changes.reduce(brought) { $0 + root[$1.path].rowCount } > most
        case .rules, .disconnect, .recall: return false
        }
    }

    /// Whether there are more rows at a place. Goes down no further than to where there are so few that it needs not.
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

    /// The place that the request named.
    public var path: Path {
        switch action {
        case .set(let path, _): path
        case .update(let base, _): base
        case .rules, .disconnect, .recall: .root
        }
    }
}

/// What became of a write.
public enum WriteOutcome: Sendable {
    /// Durable in the log at `seq`; the changes have their server values filled in, but for sums with what the writer may
    /// not read.
    case committed(seq: Int64, changes: [Change])
    /// The value at the path is not the one that the write named. `current`: what it is; nil where the writer may not
    /// read that.
    case preconditionFailed(seq: Int64, current: Node?)
    case denied(Denial)
    /// It would touch more rows than its limit.
    case tooLarge
    /// It can't be applied to what is there.
    case refused(String)
    case failed(EngineError)
}

/// Receives outcomes, in the order in which the writes were made. Called on committer threads; must return soon.
public protocol WriteSink: AnyObject, Sendable {
    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)])
}
