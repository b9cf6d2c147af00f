import NATSClient
public import Runtime

/// Publishes messages to a JetStream stream.
public final class NATSSink: Sink {
    private let definition: NATSDefinition
    private let isSequential: Bool
    private let settings: NATSSettings
    private let producers: SinkProducers
    private let key: SinkProducers.Key
    private let isStopped = MutexBox(false)

    public var batchSize: Int { definition.pace.batch }
    public var concurrency: Int { isSequential ? 1 : definition.pace.concurrency }
    public var timeoutMilliseconds: Milliseconds { definition.pace.deliveryMilliseconds }

    /// Creates a sink that connects once there are messages to deliver.
    ///
    /// - Parameters:
    ///   - isSequential: Whether all messages of the feed are in one order, regardless of their keys.
    ///   - namespace: The feed's namespace, whose sinks may share a client.
    ///   - variable: Looks up an environment variable of the gateway.
    public init(
        _ definition: NATSDefinition, isSequential: Bool, namespace: String, producers: SinkProducers,
        variable: (String) -> String?
    ) throws(SinkError) {
        var settings = NATSSettings(servers: definition.servers)
        settings.timeoutMilliseconds = definition.pace.timeoutMilliseconds
        settings.connectTimeoutMilliseconds = min(settings.connectTimeoutMilliseconds, settings.timeoutMilliseconds)
        var parts = ["nats", definition.servers.joined(separator: ","), "\(settings.timeoutMilliseconds)"]
        switch definition.credentials {
        case .none: break
        case .password(let user, let password):
            let secret = try password.value(variable)
            settings.credentials = .password(user: user, secret)
            parts += ["password", user, secret.revealed()]
        case .token(let token):
            let secret = try token.value(variable)
            settings.credentials = .token(secret)
            parts += ["token", secret.revealed()]
        case .file(let file):
            let name = try file.value(variable).revealed()
            settings.credentials = .file(name)
            parts += ["file", name]
        }
        if let file = try definition.authorities?.value(variable).revealed() {
            settings.certificateAuthoritiesFile = file
            parts += ["ca", file]
        }
        self.definition = definition
        self.isSequential = isSequential
        self.settings = settings
        self.producers = producers
        key = SinkProducers.Key(namespace: namespace, parts)
        producers.attach(key)
    }

    /// Publishes messages. The messages of a key are published one after the other.
    public func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
        producers.deliver(
            messages, isSequential: isSequential, startMilliseconds: definition.pace.timeoutMilliseconds, by: key,
            isStopped: isStopped,
            make: { [settings] () throws(SinkError) -> NATSClient in
                do throws(NATSError) { return try NATSClient(settings) } catch { throw SinkError(error.description) }
            },
            send: { [definition] message, client, done in
                client.publish(Self.natsMessage(message, definition)) { done(Self.outcome($0)) }
            }, completion)
    }

    /// Stops the client unless other sinks use it. In that case, messages in flight end within their timeout.
    public func stop() {
        isStopped.withLock { $0 = true }
        producers.detach(key)
    }

    private static func natsMessage(_ message: SinkMessage, _ definition: NATSDefinition) -> NATSMessage {
        NATSMessage(
            subject: definition.subject.subject(for: message),
            // Two feeds may publish to one stream, which detects duplicates by this id alone.
            id: "\(message.feed)/\(message.id)", expectedStream: definition.stream,
            headers: [
                .init("Pathmirror-Id", message.id), .init("Pathmirror-Namespace", message.namespace),
                .init("Pathmirror-Feed", message.feed), .init("Pathmirror-Event", message.event),
                .init("Pathmirror-Seq", String(message.seq)),
            ], body: message.json)
    }

    private static func outcome(_ result: Result<NATSAcknowledgement, NATSError>) -> SinkOutcome {
        switch result {
        case .success: .delivered
        // A stopping client, or one that is full of other feeds' messages, is not the message's fault.
        case .failure(.stopped), .failure(.tooManyMessages): .notSent
        case .failure(let error) where error.isPermanent: .refused(reason: error.description)
        case .failure(let error): .failed(reason: error.description, retryAfterMilliseconds: nil)
        }
    }
}

extension NATSClient: SinkClient {}
