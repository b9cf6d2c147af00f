public import Runtime
public import Tree

/// A message for a sink: the encoded message, and the facts that transports need.
public struct SinkMessage: Sendable, Equatable {
    /// The id `namespace:seq:index`, which is stable over redeliveries, takeovers and replays.
    public let id: String
    /// The feed's namespace and name, for transports that state the origin of a message.
    public let namespace: String
    public let feed: String
    /// The captured keys joined by `/`, or an empty string if the pattern has no captures.
    public let key: String
    public let path: String
    /// The kind of change to the record: `created`, `updated` or `deleted`.
    public let event: String
    public let seq: Int64
    /// The time at which the entry was committed, in RFC 3339, in UTC.
    public let time: String
    /// The number of the attempt, from 1.
    public let attempt: Int
    /// The message as a JSON object, as consumers receive it from pulls.
    public let json: [UInt8]
    /// The author of the entry.
    public let author: EntryAuthor
    /// The record before and after the change, or nil if the message does not have both.
    public let values: RecordValues?

    public init(
        id: String, namespace: String, feed: String, key: String, path: String, event: String, seq: Int64, time: String,
        attempt: Int, json: [UInt8], author: EntryAuthor = .unknown, values: RecordValues? = nil
    ) {
        self.id = id
        self.namespace = namespace
        self.feed = feed
        self.key = key
        self.path = path
        self.event = event
        self.seq = seq
        self.time = time
        self.attempt = attempt
        self.json = json
        self.author = author
        self.values = values
    }
}

/// A record before and after a change.
public struct RecordValues: Sendable, Equatable {
    public let before: Node
    public let after: Node

    public init(before: Node, after: Node) {
        self.before = before
        self.after = after
    }
}

/// The outcome of the delivery of a message.
public enum SinkOutcome: Sendable, Equatable {
    /// The other side has stored the message, as durably as it guarantees.
    case delivered
    /// The delivery failed and is retried after the feed's backoff, or not before the given pause.
    case failed(reason: String, retryAfterMilliseconds: Milliseconds?)
    /// Retrying is useless: the message becomes a dead letter at once.
    case refused(reason: String)
    /// The message was not sent, mostly because an earlier message of its key failed. Does not count as an attempt.
    case notSent
    /// The message was not sent because the sink cannot start: its settings conflict, or a file is unreadable. Does
    /// not count as an attempt.
    case unavailable(reason: String)
}

/// A destination of a feed's messages: a webhook or an external message broker.
///
/// The feed calls `deliver` with some messages. Messages of one key are in order, and no key is in two deliveries at once.
/// The feed may call it again before earlier deliveries have ended, up to `concurrency` times. A sink has no queue and does not
/// retry: the feed handles order, attempts, backoff, dead letters and the circuit breaker.
public protocol Sink: AnyObject, Sendable {
    /// The maximum number of messages in one delivery.
    var batchSize: Int { get }
    /// The maximum number of deliveries in flight.
    var concurrency: Int { get }
    /// The maximum duration of a delivery. A new owner of the feed waits this long before it repeats deliveries that may be in flight.
    var timeoutMilliseconds: Milliseconds { get }

    /// Delivers messages. Calls the completion once, on any thread, with an outcome for each message in order;
    /// also if the sink is stopped.
    func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void)

    /// Ends the deliveries in flight soon. Called once; nothing is delivered afterwards.
    func stop()
}
