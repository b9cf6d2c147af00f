import KafkaClient
public import Runtime

/// Publishes messages to a Kafka topic.
public final class KafkaSink: Sink {
    private let definition: KafkaDefinition
    private let isSequential: Bool
    private let settings: KafkaSettings
    private let producers: SinkProducers
    private let key: SinkProducers.Key
    private let isStopped = MutexBox(false)

    public var batchSize: Int { definition.pace.batch }
    public var concurrency: Int { isSequential ? 1 : definition.pace.concurrency }
    public var timeoutMilliseconds: Milliseconds { definition.pace.deliveryMilliseconds }

    /// Creates a sink that connects to brokers once there are messages to deliver. Conflicting settings and unreadable files are
    /// also reported only then: reading certificates takes too long for the thread that starts feeds.
    ///
    /// - Parameters:
    ///   - isSequential: Whether all messages of the feed are in one order, regardless of their keys.
    ///   - namespace: The feed's namespace, whose sinks may share a client.
    ///   - variable: Looks up an environment variable of the gateway.
    public init(
        _ definition: KafkaDefinition, isSequential: Bool, namespace: String, producers: SinkProducers,
        variable: (String) -> String?
    ) throws(SinkError) {
        var settings = KafkaSettings(brokers: definition.brokers)
        settings.timeoutMilliseconds = definition.pace.timeoutMilliseconds
        for (name, value) in definition.properties { settings.properties[name] = try value.value(variable) }
        self.definition = definition
        self.isSequential = isSequential
        self.settings = settings
        self.producers = producers
        let properties = settings.properties.sorted { $0.key < $1.key }.flatMap { [$0.key, $0.value.revealed()] }
        key = SinkProducers.Key(
            namespace: namespace,
            ["kafka", definition.brokers.joined(separator: ","), "\(settings.timeoutMilliseconds)"] + properties)
        producers.attach(key)
    }

    /// Publishes messages. The messages of a key are published one after the other.
    public func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
        producers.deliver(
            messages, isSequential: isSequential, startMilliseconds: definition.pace.timeoutMilliseconds, by: key,
            isStopped: isStopped,
            make: { [settings] () throws(SinkError) -> KafkaClient in
                do throws(KafkaError) { return try KafkaClient(settings) } catch { throw SinkError(error.description) }
            },
            send: { [definition] message, client, done in
                client.publish(Self.record(message, definition.topic)) { done(Self.outcome($0)) }
            }, completion)
    }

    /// Stops the client unless other sinks use it. In that case, messages in flight end within their timeout.
    public func stop() {
        isStopped.withLock { $0 = true }
        producers.detach(key)
    }

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
        // A stopping client, or one that is full of other feeds' records, is not the message's fault.
        case .failure(.stopped), .failure(.tooManyRecords): .notSent
        case .failure(let error) where error.isPermanent: .refused(reason: error.description)
        case .failure(let error): .failed(reason: error.description, retryAfterMilliseconds: nil)
        }
    }
}

extension KafkaClient: SinkClient {}
