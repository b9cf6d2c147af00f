/// A row of the table `follow`: a namespace that follows an upstream database, and how it fares.
public struct FollowRecord: Sendable, Equatable {
    public let namespaceID: Int64
    public let namespace: String
    /// The URL of the upstream database.
    public let upstream: String
    /// The kind and the file of the credentials, as JSON text. Never contains a secret.
    public let credentials: String
    /// Whether the namespace keeps rules of its own instead of the upstream's.
    public let keepRules: Bool
    /// The number of bytes after which the follower stops for the rest of the day, or nil without a limit.
    public let maxBytesPerDay: Int64?
    public let isPaused: Bool
    /// Milliseconds since 1970.
    public let createdAt: Int64
    /// The 16 bytes under which a gateway follows, or nil if no gateway does.
    public let fence: [UInt8]?
    /// The gateway with the fence, for people.
    public let gateway: String?
    /// Increases with each report. A fence whose heartbeat no longer increases may be replaced.
    public let heartbeat: Int64
    /// The number of the last committed upstream message under the fence; 0 if there is none.
    public let position: Int64
    public let status: FollowStatus
    /// The time of the last change of the state, in milliseconds since 1970.
    public let stateSince: Int64?
    /// The milliseconds since the last report, and since the namespace began to follow, by the database's clock.
    public let reportAge: Int64?
    public let age: Int64
}

/// The outcome of `LogConnection.claimFollow`.
public enum FollowClaim: Sendable, Equatable {
    case claimed
    /// A transaction holds the row's lock: the gateway that follows is alive, or was until a moment ago.
    case isLocked
    /// The row was claimed by another gateway, paused, replaced or removed.
    case isOthers
}

/// The outcome of `LogConnection.followPosition`.
public enum FollowPositionLookup: Sendable, Equatable {
    case committed(Int64)
    /// A batch under the fence is being committed.
    case isLocked
    /// The fence is no longer the namespace's.
    case isOthers
}

/// The state of a follower, as the follower reports it.
public struct FollowStatus: Sendable, Equatable {
    /// The name of the state, such as `starting`.
    public var state = "starting"
    /// The problem and its remedy, if there is a problem.
    public var message: String?
    /// The time since which the upstream connection is open, in milliseconds since 1970.
    public var connectedSince: Int64?
    /// The time of the last upstream message, in milliseconds since 1970.
    public var lastMessageAt: Int64?
    /// The day of `receivedToday`, such as `2026-07-31`, in UTC.
    public var receivedOn: String?
    /// The number of bytes received from the upstream on that day.
    public var receivedToday: Int64 = 0
    /// The number of bytes received from the upstream since the namespace began to follow.
    public var received: Int64 = 0
    /// The number of entries written, of all operations.
    public var entries: Int64 = 0
    /// The number of entries with the operation `resync`.
    public var resyncs: Int64 = 0
    /// The position in the log of the last such entry.
    public var lastResyncSeq: Int64?
    /// The time from the arrival of the last upstream message to its commit.
    public var lagMilliseconds: Int64?
    /// The parts in which the follower listens, as JSON text, or nil if it listens at the root.
    public var parts: String?
    /// A digest of the upstream's rules that were stored last.
    public var rulesDigest: String?

    public init() {}
}

/// The outcome of `LogConnection.addFollow`.
public enum FollowAddition: Sendable, Equatable {
    /// The namespace follows from now on. Its id is attached.
    case added(Int64)
    /// The namespace already follows an upstream. Nothing was changed.
    case alreadyFollows
    /// The namespace has data of its own, which the upstream's data would replace. Nothing was changed.
    case hasData
}

/// Whether a namespace follows an upstream, as far as other writers have to know.
public enum Following: UInt8, Sendable, Hashable {
    /// The namespace follows nothing: clients may write.
    case nothing
    /// The namespace is read-only for clients.
    case upstream
    /// The namespace is read-only for clients, and administrators may set its rules.
    case upstreamWithOwnRules
}

/// The right of a batch to move the head of a namespace that follows an upstream.
///
/// Its transaction obtains the right before it moves the head.
public struct FollowPass: Sendable, Equatable {
    /// Numbered upstream messages. They are committed if the fence is the namespace's and the last committed message is
    /// `after`.
    public struct Messages: Sendable, Equatable {
        /// The 16 bytes that `claimFollow` has set.
        public let fence: [UInt8]
        /// The number of the message before the first one.
        public let after: Int64
        /// The number of the last message.
        public let upto: Int64

        public init(fence: [UInt8], after: Int64, upto: Int64) {
            self.fence = fence
            self.after = after
            self.upto = upto
        }
    }

    /// The upstream messages in the batch, or nil if there are none.
    public let messages: Messages?
    /// Whether the batch contains rules of an administrator. The namespace must keep rules of its own.
    public let hasOwnRules: Bool

    /// Returns nil if the batch contains neither.
    public init?(_ messages: Messages?, hasOwnRules: Bool = false) {
        guard messages != nil || hasOwnRules else { return nil }
        self.messages = messages
        self.hasOwnRules = hasOwnRules
    }
}
