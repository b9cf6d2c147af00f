public import Runtime
public import Tree

/// A message as it is handed to a consumer.
public struct FeedDelivery: Sendable {
    public let message: FeedMessage
    public let attempt: Int
    public let namespace: String
    /// Counts the deliveries of the feed's owner.
    let number: UInt64

    /// The message as JSON, with its attempt.
    public var json: [UInt8] { message.json(namespace: namespace, attempt: attempt) }
    /// About how long that is, in bytes.
    public var estimatedBytes: Int { message.estimatedBytes }

    /// Writes the message as JSON, with its attempt.
    public func write(to writer: inout JSONWriter) {
        message.write(namespace: namespace, attempt: attempt, to: &writer)
    }
    /// The id of a stream's event that brings the message.
    public var eventID: String { FeedEventID(message.position, delivery: number).text(in: namespace) }
}

/// Why a feed could not be asked, or told.
public enum FeedRefusal: Sendable, Equatable {
    case unknownFeed
    /// The namespace is on its way to another database, or there already.
    case moving
    /// Another gateway works it: where that is reached.
    case elsewhere(FeedPeer)
    /// No gateway works it yet, or this one has no word from the database.
    case noOwner
    /// Its messages go to a webhook or a sink by themselves.
    case isPushed
    case tooManyWaiting
    case stopping
    /// The caller's token is for another feed that had the name before.
    case notAdmitted
}

/// What a consumer says of messages that it holds.
public enum FeedSettlement: Sendable, Equatable {
    case acknowledge
    /// Nil: after the feed's backoff.
    case reject(delayMilliseconds: Milliseconds?, reason: String)
    case extend(milliseconds: Milliseconds)
}

/// A consumer's wish for messages.
public struct FeedPull: Sendable {
    /// Unique among the gateway's.
    public let id: UInt64
    public let feed: FeedName
    public let consumer: String
    /// The connection that asks; nil for a request that stands for itself.
    public let opening: FeedOpening?
    /// Present if the pull is the first of its connection, until a gateway that works the feed has opened the connection. A pull that waits for
    /// such a gateway keeps it.
    var opens: Opens?

    /// How a consumer opens a connection.
    struct Opens: Sendable {
        /// The last message that the consumer received on its former connection; nil if it names none.
        let after: FeedEventID?
    }

    /// Which feed of the name is meant.
    public let access: FeedAccess
    public let most: Int
    /// How many messages the consumer may hold; nil for any number.
    public let mostHeld: Int?
    /// In monotonic milliseconds.
    public var deadline: Milliseconds

    public init(
        id: UInt64, feed: FeedName, consumer: String, access: FeedAccess = .any, opening: FeedOpening? = nil, most: Int,
        mostHeld: Int?, deadline: Milliseconds
    ) {
        self.id = id
        self.access = access
        self.feed = feed
        self.consumer = consumer
        self.opening = opening
        self.most = most
        self.mostHeld = mostHeld
        self.deadline = deadline
    }
}

/// How a feed fares on the gateway that works it.
public struct FeedReport: Sendable, Equatable {
    public let feed: FeedName
    let feedID: Int64?
    public var state: String
    public var message: String?
    /// Entries up to this one are done.
    public var seq: Int64
    public var readTo: Int64
    public var pending: Int
    public var held: Int
    /// Some of the consumers that hold messages, in no particular order; none in reports for metrics.
    public var consumers: [String]
    /// The number of consumers that hold messages.
    public var consumerCount: Int
    /// When the entry was committed of which the oldest message waits that is not done; nil where none waits. In
    /// milliseconds since 1970.
    public var oldestID: String?
    public var oldestAt: Milliseconds?
    public var setAside: Int
}
