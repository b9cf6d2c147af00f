import ClientCore
public import Tree

/// A write that the follower submits to its namespace. Numbers are contiguous under one claim.
public struct FollowWrite: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        /// One message of the upstream, or a difference. Paths begin at the root.
        case changes([Change])
        /// The upstream's rules document.
        case rules([UInt8])
    }

    public let number: Int64
    /// `upstream` for a message, `resync` for a difference after a gap, `rules` for rules.
    public let operation: Tree.Operation
    /// The path of the message.
    public let path: Path
    public let content: Content
    /// The number of bytes of the message, for the limits of queues.
    public let byteCount: Int
    /// The monotonic time at which the message arrived, in milliseconds.
    public let receivedAt: Int64
}

/// The outcome of a submitted write.
public enum FollowOutcome: Sendable, Equatable {
    /// The write is durable in the log at this seq.
    case committed(seq: Int64)
    /// The namespace can't apply the write, for this reason. Nothing was written.
    case refused(String)
    /// The write may or may not have been committed, for this reason.
    case failed(String)
}

/// A task for the owner of a `FollowMachine`, to be executed in order.
enum FollowEffect: Sendable, Equatable {
    /// A task of the connection. `sendListen` and `report` do not occur.
    case connection(ConnectionEffect)
    /// Submit the write, after all writes of earlier effects. Its outcome is passed back once, to `answered`.
    case submit(FollowWrite)
    /// Read the position of the last committed message, and pass it to `positionFound`.
    case readPosition
    /// Ask the upstream for the keys at the part's path, and pass them to `keysFound`.
    case findKeys(FollowPart)
    /// The plan has changed; store it.
    case planChanged
    /// Write a log line.
    case log(FollowNotice)
}

/// An event for the log.
enum FollowNotice: Sendable, Equatable {
    case connected
    case disconnected(reason: String)
    case synchronized(entries: Int)
    case split(FollowPart, into: Int)
    case tokenRenewed
    case tokenMissing(String)
    case problem(FollowState)
    case note(String)
}

/// The state of a follower, as `follow status` shows it.
public enum FollowState: Sendable, Equatable {
    /// No attempt to connect has ended yet.
    case connecting
    /// The upstream has greeted; the login is not answered.
    case authenticating
    /// The upstream sends what has changed since the last connection.
    case synchronizing
    /// All messages up to now are applied or being committed.
    case following
    /// The connection failed or ended; another attempt follows.
    case waiting(reason: String)
    /// The follower has no valid credential.
    case unauthenticated(reason: String)
    /// The upstream's rules or roles do not let the credential read.
    case denied(reason: String)
    /// The upstream has asked clients not to connect again.
    case shutDown(reason: String)
    /// The upstream sent something that can't be stored or that violates the protocol.
    case invalid(reason: String)
    /// A part of the tree is too large for one listen and can't be split.
    case tooLarge(reason: String)
    /// The daily limit of received bytes is reached.
    case overBudget(reason: String)
    /// The database does not commit.
    case databaseAway(reason: String)
    /// An administrator has paused the follower.
    case paused

    /// The state's name in SQL, JSON and metrics.
    public var name: String {
        switch self {
        case .connecting: "connecting"
        case .authenticating: "authenticating"
        case .synchronizing: "synchronizing"
        case .following: "following"
        case .waiting: "waiting"
        case .unauthenticated: "unauthenticated"
        case .denied: "denied"
        case .shutDown: "shut down"
        case .invalid: "invalid"
        case .tooLarge: "too large"
        case .overBudget: "over budget"
        case .databaseAway: "database away"
        case .paused: "paused"
        }
    }

    /// The names of all states.
    public static let names = [
        "connecting", "authenticating", "synchronizing", "following", "waiting", "unauthenticated", "denied",
        "shut down", "invalid", "too large", "over budget", "database away", "paused",
    ]

    /// The cause and the remedy of a state that needs attention; nil for the others.
    public var message: String? {
        switch self {
        case .connecting, .authenticating, .synchronizing, .following, .paused: nil
        case .waiting(let reason): "\(Self.sentence(reason)) The gateway connects again by itself."
        case .unauthenticated(let reason):
            "\(Self.sentence(reason)) Check the file of credentials, the token endpoint and the clock of the gateway."
        case .denied(let reason):
            "\(Self.sentence(reason)) Grant the account roles/firebasedatabase.viewer, or let the upstream's rules read the root. The "
                + "gateway tries again in 30 s."
        case .shutDown(let reason):
            "The upstream asked its clients not to connect again (\(reason)). Check the project and the database's location."
        case .invalid(let reason):
            "\(Self.sentence(reason)) The gateway connects again later, and then compares everything."
        case .tooLarge(let reason): "\(Self.sentence(reason)) Move the value to smaller children in the upstream."
        case .overBudget(let reason):
            "\(Self.sentence(reason)) It continues on the next day (UTC). To raise the limit: follow rm, then follow add with another "
                + "--max-bytes-per-day and --replace."
        case .databaseAway(let reason):
            "\(Self.sentence(reason)) The gateway continues by itself once PostgreSQL commits."
        }
    }

    /// Returns a reason as a sentence with one period at its end.
    private static func sentence(_ reason: String) -> String { reason.hasSuffix(".") ? reason : reason + "." }
}
