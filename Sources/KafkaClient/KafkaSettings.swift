import CKafka
public import Runtime

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

/// The properties of librdkafka that may be set. Those that order, acknowledgements and de-duplication rest upon are ours, and
/// none is here that runs a program, loads a library or writes a file.
public enum KafkaProperty {
    /// Their names, as librdkafka's documentation has them.
    public static let allowed: Set<String> = ordinary.union(secret).union(files)

    private static let ordinary: Set<String> = [
        "client.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "ssl.ca.pem",
        "ssl.certificate.pem", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "compression.type",
        "compression.codec", "compression.level", "linger.ms", "batch.size", "batch.num.messages", "message.max.bytes",
        "socket.timeout.ms", "socket.keepalive.enable", "socket.connection.setup.timeout.ms", "broker.address.family",
        "reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms",
        "allow.auto.create.topics",
    ]

    /// Those whose values nobody is shown.
    public static let secret: Set<String> = [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password",
    ]

    /// Those that name a file on the gateway's machine.
    public static let files: Set<String> = [
        "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.crl.location",
    ]

    /// What is wrong with a property and its value, as the end of a sentence that begins with its name; nil where nothing is.
    public static func fault(_ name: String, _ value: String) -> String? {
        guard allowed.contains(name) else { return "is none that can be set here" }
        guard let configuration = rd_kafka_conf_new() else { return nil }
        defer { rd_kafka_conf_destroy(configuration) }
        return set(configuration, name, value)
    }

    /// Sets a property, or says what is wrong. The library's own words may hold the value, which may be secret.
    static func set(_ configuration: OpaquePointer, _ name: String, _ value: String) -> String? {
        guard !value.utf8.contains(0) else { return "can't hold U+0000" }
        switch rd_kafka_conf_set(configuration, name, value, nil, 0) {
        case RD_KAFKA_CONF_OK: return nil
        case RD_KAFKA_CONF_UNKNOWN: return "is unknown to this librdkafka"
        default: return "can't have this value"
        }
    }
}
