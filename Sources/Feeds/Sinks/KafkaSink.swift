import KafkaClient
public import Runtime

/// Publishes messages to a topic of Kafka.
public final class KafkaSink: Sink {
    private let definition: KafkaDefinition
    private let isOneLane: Bool
    private let client: KafkaClient

    public var batchSize: Int { definition.pace.batch }
    public var concurrency: Int { isOneLane ? 1 : definition.pace.concurrency }
    public var timeoutMilliseconds: Milliseconds { definition.pace.deliveryMilliseconds }

    /// Connects in the background.
    ///
    /// - Parameters:
    ///   - isOneLane: true where all messages of the feed are in one order, whatever their keys.
    ///   - variable: looks an environment variable of the gateway up.
    public init(
        _ definition: KafkaDefinition, isOneLane: Bool, variable: (String) -> String?
    ) throws(SinkError) {
        var settings = KafkaSettings(brokers: definition.brokers)
        settings.timeoutMilliseconds = definition.pace.timeoutMilliseconds
        for (name, value) in definition.properties { settings.properties[name] = try value.value(variable) }
        self.definition = definition
        self.isOneLane = isOneLane
        do throws(KafkaError) { client = try KafkaClient(settings) } catch { throw SinkError(error.description) }
    }

    /// Publishes, the messages of a key after one another.
    public func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
        let (topic, client) = (definition.topic, client)
        LaneDelivery.begin(
            messages, isOneLane: isOneLane, startMilliseconds: definition.pace.timeoutMilliseconds,
            { message, done in
                client.publish(Self.record(message, topic)) { result in done(Self.outcome(result)) }
            }, completion)
    }

    /// Ends the client.
    public func stop() { client.stop() }

    private static func record(_ message: SinkMessage, _ topic: String) -> KafkaRecord {
        KafkaRecord(
            topic: topic, key: Array(message.key.utf8),
            headers: [
                .init("id", message.id), .init("namespace", message.namespace), .init("feed", message.feed),
                .init("event", message.event), .init("seq", String(message.seq)),
            ], value: message.json)
    }

    private static func outcome(_ result: Result<KafkaReceipt, KafkaError>) -> SinkOutcome {
        switch result {
        case .success: .delivered
        // That the sink ends is no fault of the message.
        case .failure(.stopped): .notSent
        case .failure(let error) where error.isPermanent: .refused(reason: error.description)
        case .failure(let error): .failed(reason: error.description, retryAfterMilliseconds: nil)
        }
    }
}
