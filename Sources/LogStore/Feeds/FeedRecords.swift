public import Runtime

/// A feed's row of the catalog.
public struct FeedRecord: Sendable, Equatable {
    public let namespaceID: Int64
    public let namespace: String
    public let id: Int64
    public let name: String
    /// Tells it from other feeds that have had its name, in any database: a UUID's text.
    public let uid: String
    /// Seconds since 1970, rounded down.
    public let createdAt: Int64
    /// The definition as it was applied last, as JSON, with its secrets.
    public let definition: [UInt8]
    /// Different whenever something about the feed has changed.
    public let revision: Int64
    /// Who works it, by its row of `feed_worker`; nil for nobody.
    public let worker: [UInt8]?
    /// Whether that row is there.
    public let isWorkerAlive: Bool
    /// Where other gateways reach it; nil where it has registered no key, as gateways of older versions.
    public let reach: FeedWorkerReach?
    public let generation: Int64
}

/// Where other gateways reach a gateway that works feeds, and how they authenticate each other.
public struct FeedWorkerReach: Sendable, Equatable {
    /// Empty where they can't.
    public let address: String
    /// Authenticates what is forwarded to it.
    public let key: Secret<[UInt8]>
    /// The SHA-256 of its certificate's public key.
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

/// How far a feed has come, as its row has it.
public struct FeedProgressRecord: Sendable, Equatable {
    public var seq: Int64
    public var index: Int64
    public var snapshotSeq: Int64?
    public var done: [UInt8]
    public var handedTo: Int64
    public var readTo: LogCursor

    public init(
        seq: Int64, index: Int64, snapshotSeq: Int64?, done: [UInt8], handedTo: Int64, readTo: LogCursor
    ) {
        self.seq = seq
        self.index = index
        self.snapshotSeq = snapshotSeq
        self.done = done
        self.handedTo = handedTo
        self.readTo = readTo
    }
}

/// A message that failed, as its row has it.
public struct FeedLetterRecord: Sendable, Equatable {
    public let seq: Int64
    public let index: Int64
    public let isSnapshot: Bool
    public let key: String
    public let state: String
    public let attempts: Int
    /// A list of objects, as JSON.
    public let errors: [UInt8]
    /// The message as JSON, without its attempt; nil where it is in the log.
    public let message: [UInt8]?

    public init(
        seq: Int64, index: Int64, isSnapshot: Bool, key: String, state: String, attempts: Int, errors: [UInt8],
        message: [UInt8]?
    ) {
        self.seq = seq
        self.index = index
        self.isSnapshot = isSnapshot
        self.key = key
        self.state = state
        self.attempts = attempts
        self.errors = errors
        self.message = message
    }
}

/// Which worker works a feed, and by which right: what comes under another generation is not taken.
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

/// A step of one feed's progress.
public struct FeedMove: Sendable {
    public let claim: FeedClaim
    /// Counts the moves under the claim, from 1.
    public let number: Int64
    /// The move that is the last before it, or one that came between them.
    public let follows: Int64
    public let progress: FeedProgressRecord
    public let delivered: Int64
    public let acknowledged: Int64
    public let redelivered: Int64
    /// Letters that are written, and the places of those that go.
    public let letters: [FeedLetterRecord]
    public let removed: [(seq: Int64, index: Int64, isSnapshot: Bool)]

    public init(
        claim: FeedClaim, number: Int64, follows: Int64, progress: FeedProgressRecord, delivered: Int64,
        acknowledged: Int64, redelivered: Int64,
        letters: [FeedLetterRecord], removed: [(seq: Int64, index: Int64, isSnapshot: Bool)]
    ) {
        self.claim = claim
        self.number = number
        self.follows = follows
        self.progress = progress
        self.delivered = delivered
        self.acknowledged = acknowledged
        self.redelivered = redelivered
        self.letters = letters
        self.removed = removed
    }
}
