public import Runtime

/// A message as a sink gets it: what it says, already encoded, and what a transport needs to know of it.
public struct SinkMessage: Sendable, Equatable {
    /// Stable over redeliveries, takeovers and replays: `namespace:seq:index`.
    public let id: String
    /// The feed's namespace and name, for transports that name where a message comes from.
    public let namespace: String
    public let feed: String
    /// The captured keys, joined by `/`; empty where the pattern captures none.
    public let key: String
    public let path: String
    /// What happened to the record: `created`, `updated`, `deleted`.
    public let event: String
    public let seq: Int64
    /// When the entry was committed, as RFC 3339 in UTC.
    public let time: String
    /// 1 for the first delivery.
    public let attempt: Int
    /// The message as consumers that pull see it: a JSON object.
    public let json: [UInt8]

    public init(
        id: String, namespace: String, feed: String, key: String, path: String, event: String, seq: Int64, time: String,
        attempt: Int, json: [UInt8]
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
    }
}

/// What became of a delivery.
public enum SinkOutcome: Sendable, Equatable {
    /// The other side has it, durably as far as it says.
    case delivered
    /// To be tried again: after the feed's backoff, or not before so long.
    case failed(reason: String, retryAfterMilliseconds: Milliseconds?)
    /// Trying again is no use: a dead letter at once.
    case refused(reason: String)
    /// It was not tried, mostly as one before it of its key has failed. It does not count as an attempt.
    case notSent
    /// It was not tried, as the sink can't begin: its settings don't go together, or a file can't be read. It does not count as an attempt.
    case unavailable(reason: String)
}

/// Where a feed's messages go: a webhook, or an engine that somebody runs already.
///
/// The feed calls `deliver` with some messages: those of one key in order, and no key of which a delivery is still under way. It calls
/// again, before the first has answered, up to `concurrency` times. A sink keeps no queue of its own and does not try again: order,
/// attempts, backoff, dead letters and the circuit breaker are the feed's.
public protocol Sink: AnyObject, Sendable {
    /// How many messages one delivery has at most.
    var batchSize: Int { get }
    /// How many deliveries are under way at once, at most.
    var concurrency: Int { get }
    /// How long a delivery may be under way. A new owner of the feed waits so long before it delivers what may be under way yet.
    var timeoutMilliseconds: Milliseconds { get }

    /// Delivers. Calls back once, from any thread, with an outcome for each message, in their order; also when it is stopped.
    func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void)

    /// Ends what is under way, soon. Not called twice; nothing is delivered afterwards.
    func stop()
}
