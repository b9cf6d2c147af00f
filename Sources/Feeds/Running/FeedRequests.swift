public import Runtime
public import Tree

/// A message delivered to a consumer.
public struct FeedDelivery: Sendable {
    public let message: FeedMessage
    public let attempt: Int
    public let namespace: String
    /// The number of this delivery among all deliveries of the feed.
    let number: UInt64

    /// The message as JSON, including the attempt number.
    public var json: [UInt8] { message.json(namespace: namespace, attempt: attempt) }
    /// The approximate size of the JSON in bytes.
    public var estimatedBytes: Int { message.estimatedBytes }

    /// Writes the message as JSON, including the attempt number.
    public func write(to writer: inout JSONWriter) {
        message.write(namespace: namespace, attempt: attempt, to: &writer)
    }
    /// The id of the event that carries the message on a stream.
    public var eventID: String { FeedEventID(message.position, delivery: number).text(in: namespace) }
}

/// The reason why a request about a feed was refused.
public enum FeedRefusal: Sendable, Equatable {
    case unknownFeed
    /// The namespace is moving or has moved to another database.
    case moving
    /// Another gateway runs the feed, at this address.
    case elsewhere(FeedPeer)
    /// No gateway runs the feed yet, or this gateway cannot reach the database.
    case noOwner
    /// The gateway pushes the feed's messages to a webhook or a sink.
    case isPushed
    case tooManyWaiting
    case stopping
    /// The caller's token is for an earlier feed of the same name.
    case notAdmitted
}

/// A consumer's decision about messages that it holds.
public enum FeedSettlement: Sendable, Equatable {
    case acknowledge
    /// Nil for the feed's backoff.
    case reject(delayMilliseconds: Milliseconds?, reason: String)
    case extend(milliseconds: Milliseconds)
}

/// A consumer's request for messages.
public struct FeedPull: Sendable {
    /// An id that is unique on this gateway.
    public let id: UInt64
    public let feed: FeedName
    public let consumer: String
    /// The connection of the pull, or nil if the pull belongs to no opening.
    public let opening: FeedOpening?
    /// Present if the pull opens its connection, until a gateway that runs the feed has opened it. A pull that waits for
    /// an owner keeps the value.
    var opens: Opens?

    /// The opening of a connection by a consumer.
    struct Opens: Sendable {
        /// The last message that the consumer received on its previous connection, or nil if it names none.
        let after: FeedEventID?
    }

    /// Identifies the feed, in case an earlier feed had the same name.
    public let access: FeedAccess
    public let most: Int
    /// The maximum number of messages that the consumer may hold, or nil for no limit.
    public let mostHeld: Int?
    /// The time until which the pull waits, in monotonic milliseconds.
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

/// The state of a feed on the gateway that runs it.
public struct FeedReport: Sendable, Equatable {
    public let feed: FeedName
    let feedID: Int64?
    public var state: String
    public var message: String?
    /// The entry up to which all messages are done.
    public var seq: Int64
    public var readTo: Int64
    public var pending: Int
    public var held: Int
    /// Some of the consumers that hold messages, in no particular order. Empty in reports for metrics.
    public var consumers: [String]
    /// The number of consumers that hold messages.
    public var consumerCount: Int
    /// The id of the oldest undone message, and the time at which its entry was committed, in milliseconds since 1970. Nil if there
    /// is no such message; the time is also nil if it is only known from a stored message.
    public var oldestID: String?
    public var oldestAt: Milliseconds?
    public var setAside: Int
}
