import CKafka

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
