import NATSClient
public import Runtime

/// Publishes messages to a stream of JetStream.
public final class NATSSink: Sink {
    private let definition: NATSDefinition
    private let isOneLane: Bool
    private let client: NATSClient

    public var batchSize: Int { definition.pace.batch }
    public var concurrency: Int { isOneLane ? 1 : definition.pace.concurrency }
    public var timeoutMilliseconds: Milliseconds { definition.pace.deliveryMilliseconds }

    /// Connects when there is something to deliver.
    ///
    /// - Parameters:
    ///   - isOneLane: true where all messages of the feed are in one order, whatever their keys.
    ///   - variable: looks an environment variable of the gateway up.
    public init(
        _ definition: NATSDefinition, isOneLane: Bool, variable: (String) -> String?
    ) throws(SinkError) {
        var settings = NATSSettings(servers: definition.servers)
        settings.timeoutMilliseconds = definition.pace.timeoutMilliseconds
        settings.connectTimeoutMilliseconds = min(settings.connectTimeoutMilliseconds, settings.timeoutMilliseconds)
        switch definition.credentials {
        case .none: break
        case .password(let user, let password):
            settings.credentials = .password(user: user, try password.value(variable))
        case .token(let token): settings.credentials = .token(try token.value(variable))
        case .file(let file): settings.credentials = .file(try file.value(variable).revealed())
        }
        settings.certificateAuthoritiesFile = try definition.authorities?.value(variable).revealed()
        self.definition = definition
        self.isOneLane = isOneLane
        do throws(NATSError) { client = try NATSClient(settings) } catch { throw SinkError(error.description) }
    }

    /// Publishes, the messages of a key after one another.
    public func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
        let (definition, client) = (definition, client)
        LaneDelivery.begin(
            messages, isOneLane: isOneLane, startMilliseconds: definition.pace.timeoutMilliseconds,
            { message, done in
                client.publish(Self.natsMessage(message, definition)) { result in done(Self.outcome(result)) }
            }, completion)
    }

    /// Ends the client.
    public func stop() { client.stop() }

    private static func natsMessage(_ message: SinkMessage, _ definition: NATSDefinition) -> NATSMessage {
        NATSMessage(
            subject: definition.subject.subject(for: message),
            // Two feeds may publish to one stream, which looks at this alone.
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
        // That the sink ends is no fault of the message.
        case .failure(.stopped): .notSent
        case .failure(let error) where error.isPermanent: .refused(reason: error.description)
        case .failure(let error): .failed(reason: error.description, retryAfterMilliseconds: nil)
        }
    }
}
