public import Runtime

/// The catalog row of a feed.
public struct FeedRecord: Sendable, Equatable {
    public let namespaceID: Int64
    public let namespace: String
    public let id: Int64
    public let name: String
    /// A UUID as text. Distinguishes the feed from other feeds that have had its name, in any database.
    public let uid: String
    /// Seconds since 1970, rounded down.
    public let createdAt: Int64
    /// The definition that was applied last, as JSON, including its secrets.
    public let definition: [UInt8]
    /// Increases with every change of the feed.
    public let revision: Int64
    /// The id in `feed_worker` of the gateway that runs the feed, or nil if no gateway does.
    public let worker: [UInt8]?
    /// Whether `feed_worker` still has a row for `worker`.
    public let isWorkerAlive: Bool
    /// The address and key of the worker, or nil if it has registered no key, like gateways of older versions.
    public let reach: FeedWorkerReach?
    public let generation: Int64
}

/// The address at which other gateways reach a gateway that runs feeds, and the secrets for authentication between
/// them.
public struct FeedWorkerReach: Sendable, Equatable {
    /// Empty if other gateways cannot reach the gateway.
    public let address: String
    /// Authenticates the requests that other gateways forward.
    public let key: Secret<[UInt8]>
    /// The SHA-256 of the public key of the gateway's certificate.
    public let pin: [UInt8]?

    public init(address: String, key: Secret<[UInt8]>, pin: [UInt8]? = nil) {
        self.address = address
        self.key = key
        self.pin = pin
    }

    public static func == (left: FeedWorkerReach, right: FeedWorkerReach) -> Bool {
        left.address == right.address && left.key.revealed() == right.key.revealed() && left.pin == right.pin
    }
}

/// The progress of a feed, as stored in its row.
public struct FeedProgressRecord: Sendable, Equatable {
    public var seq: Int64
    public var index: Int64
    public var snapshotSeq: Int64?
    public var done: [UInt8]
    public var handedTo: Int64
    public var readTo: LogPosition

    public init(
        seq: Int64, index: Int64, snapshotSeq: Int64?, done: [UInt8], handedTo: Int64, readTo: LogPosition
    ) {
        self.seq = seq
        self.index = index
        self.snapshotSeq = snapshotSeq
        self.done = done
        self.handedTo = handedTo
        self.readTo = readTo
    }
}

/// A message that failed, as stored in its row.
public struct FailedMessageRecord: Sendable, Equatable {
    public let position: FeedPosition
    public let key: String
    public let state: String
    public let attempts: Int
    /// A JSON array of objects.
    public let errors: [UInt8]
    /// The message as JSON, without its attempt. Nil if the message can be read from the log.
    public let message: [UInt8]?

    public init(
        position: FeedPosition, key: String, state: String, attempts: Int, errors: [UInt8],
        message: [UInt8]?
    ) {
        self.position = position
        self.key = key
        self.state = state
        self.attempts = attempts
        self.errors = errors
        self.message = message
    }
}

/// The right of a worker to run a feed. The database rejects progress under another generation.
public struct FeedClaim: Sendable, Hashable {
    public let namespace: Int64
    public let feed: Int64
    public let worker: [UInt8]
    public let generation: Int64

    public init(namespace: Int64, feed: Int64, worker: [UInt8], generation: Int64) {
        self.namespace = namespace
        self.feed = feed
        self.worker = worker
        self.generation = generation
    }
}

/// One step of a feed's progress.
public struct FeedMove: Sendable {
    public let claim: FeedClaim
    /// The number of this move under the claim, counted from 1.
    public let number: Int64
    /// The lowest number that the last stored move may have for this move to be accepted.
    public let follows: Int64
    public let progress: FeedProgressRecord
    public let delivered: Int64
    public let acknowledged: Int64
    public let redelivered: Int64
    /// Failed messages to write, and the positions of the failed messages to delete.
    public let failedMessages: [FailedMessageRecord]
    public let removed: [FeedPosition]

    public init(
        claim: FeedClaim, number: Int64, follows: Int64, progress: FeedProgressRecord, delivered: Int64,
        acknowledged: Int64, redelivered: Int64,
        failedMessages: [FailedMessageRecord], removed: [FeedPosition]
    ) {
        self.claim = claim
        self.number = number
        self.follows = follows
        self.progress = progress
        self.delivered = delivered
        self.acknowledged = acknowledged
        self.redelivered = redelivered
        self.failedMessages = failedMessages
        self.removed = removed
    }
}
