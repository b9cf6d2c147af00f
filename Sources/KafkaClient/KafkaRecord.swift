public import Runtime

/// A record for a topic.
public struct KafkaRecord: Sendable, Equatable {
    public var topic: String
    /// Records of one key go to one partition; so do those whose key is empty.
    public var key: [UInt8]
    public var headers: [Header]
    public var value: [UInt8]

    public struct Header: Sendable, Equatable {
        public let name: String
        public let value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(topic: String, key: [UInt8], headers: [Header] = [], value: [UInt8]) {
        self.topic = topic
        self.key = key
        self.headers = headers
        self.value = value
    }
}

/// The place of a record in a topic.
public struct KafkaReceipt: Sendable, Equatable {
    public let partition: Int
    /// Nil where the broker did not say.
    public let offset: Int64?

    public init(partition: Int, offset: Int64?) {
        self.partition = partition
        self.offset = offset
    }
}

/// Which brokers, with which properties, and how much patience there is with them.
public struct KafkaSettings: Sendable {
    /// `host:port`, some brokers of the cluster.
    public var brokers: [String]
    /// Of `KafkaProperty.allowed`.
    public var properties: [String: Secret<String>] = [:]
    /// From `publish` to the acknowledgement of all replicas that are in step.
    public var timeoutMilliseconds: Milliseconds = 10_000
    /// Records under way and waiting, and their size; more are refused.
    public var maxRecords = 10_000
    public var maxKilobytes = 64 << 10
    /// How long `stop` waits for what is under way.
    public var flushMilliseconds: Milliseconds = 1_000

    public init(brokers: [String]) { self.brokers = brokers }
}
