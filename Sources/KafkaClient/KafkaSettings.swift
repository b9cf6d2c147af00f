import CKafka
public import Runtime

/// The brokers, the properties, and the timeouts of a client.
public struct KafkaSettings: Sendable {
    /// Some brokers of the cluster, as `host:port`.
    public var brokers: [String]
    /// Values of properties in `KafkaProperty.allowed`.
    public var properties: [String: Secret<String>] = [:]
    /// The timeout from `publish` to the acknowledgement of all in-sync replicas.
    public var timeoutMilliseconds: Milliseconds = 10_000
    /// The maximum number and total size of records in flight and waiting. Further records are refused.
    public var maxRecords = 10_000
    public var maxKilobytes = 64 << 10
    /// How long `stop` waits for the records in flight.
    public var flushMilliseconds: Milliseconds = 1_000

    public init(brokers: [String]) { self.brokers = brokers }
}

/// The properties of librdkafka that users may set. The client itself sets the properties that determine order, acknowledgements
/// and de-duplication. No allowed property runs a program, loads a library or writes a file.
public enum KafkaProperty {
    /// The names in librdkafka's documentation.
    public static let allowed: Set<String> = ordinary.union(secret).union(files)

    private static let ordinary: Set<String> = [
        "client.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "ssl.ca.pem",
        "ssl.certificate.pem", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "compression.type",
        "compression.codec", "compression.level", "linger.ms", "batch.size", "batch.num.messages", "message.max.bytes",
        "socket.timeout.ms", "socket.keepalive.enable", "socket.connection.setup.timeout.ms", "broker.address.family",
        "reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms",
        "allow.auto.create.topics",
    ]

    /// The properties whose values are never shown.
    public static let secret: Set<String> = [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password",
    ]

    /// The properties that name a file on the gateway's machine.
    public static let files: Set<String> = [
        "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.crl.location",
    ]

    /// Returns the mistake in a property or its value, as the end of a sentence that begins with the name, or nil if it is valid.
    public static func fault(_ name: String, _ value: String) -> String? {
        guard allowed.contains(name) else { return "can't be set here" }
        guard let configuration = rd_kafka_conf_new() else { return nil }
        defer { rd_kafka_conf_destroy(configuration) }
        return set(configuration, name, value)
    }

    /// Sets a property. Returns the mistake, or nil.
    /// The library's own message is not used, because it may contain a secret value.
    static func set(_ configuration: OpaquePointer, _ name: String, _ value: String) -> String? {
        guard !value.utf8.contains(0) else { return "can't contain U+0000" }
        switch rd_kafka_conf_set(configuration, name, value, nil, 0) {
        case RD_KAFKA_CONF_OK: return nil
        case RD_KAFKA_CONF_UNKNOWN: return "is unknown to this librdkafka"
        default: return "can't have this value"
        }
    }
}
