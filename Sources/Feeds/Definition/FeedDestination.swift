import JSONText
import Tree

/// Where a feed's messages go by themselves.
public enum FeedDestination: Sendable, Equatable {
    case webhook(WebhookDefinition)
    case nats(NATSDefinition)
    case kafka(KafkaDefinition)

    /// The members of a feed's definition that say so, of which it has one at most.
    static let members = ["webhook", "nats", "kafka"]

    /// Reads one of the members; nil, and the mistakes noted, where it is none.
    static func read(
        _ member: String, _ value: SourceValue, in form: DefinitionForm, problems: inout [DefinitionError.Problem]
    ) -> FeedDestination? {
        switch member {
        case "webhook": WebhookDefinition.read(value, in: form, problems: &problems).map { .webhook($0) }
        case "nats": NATSDefinition.read(value, in: form, problems: &problems).map { .nats($0) }
        case "kafka": KafkaDefinition.read(value, in: form, problems: &problems).map { .kafka($0) }
        default: nil
        }
    }

    /// Writes the member into an object that has others before it.
    func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        switch self {
        case .webhook(let definition):
            writer.writeKey("webhook", isFirst: false)
            definition.write(&writer, as: form)
        case .nats(let definition):
            writer.writeKey("nats", isFirst: false)
            definition.write(&writer, as: form)
        case .kafka(let definition):
            writer.writeKey("kafka", isFirst: false)
            definition.write(&writer, as: form)
        }
    }
}
