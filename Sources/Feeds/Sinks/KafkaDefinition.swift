public import JSONText
import KafkaClient
import Runtime
public import Tree

/// The member `kafka` of a feed's definition: the topic that receives the feed's messages.
public struct KafkaDefinition: Sendable, Equatable {
    /// The brokers as `host:port`.
    public let brokers: [String]
    public let topic: String
    /// The configured properties of librdkafka, by name.
    public let properties: [String: SinkSecret]
    public let pace: SinkPace

    private static let members = ["brokers", "topic", "properties"]

    /// - Parameters:
    ///   - part: The path of the member in the feed's definition, for error messages.
    ///   - problems: Receives every mistake.
    /// - Returns: Nil if there are mistakes.
    public static func read(
        _ value: SourceValue, in form: DefinitionForm = .shown, part: String = "kafka",
        problems: inout [DefinitionError.Problem]
    ) -> KafkaDefinition? {
        var reader = SinkDefinitionReader(value, part: part, allowed: members + SinkPace.members(form))
        guard reader.isObject else {
            problems += reader.problems
            return nil
        }
        let brokers = reader.texts(
            "brokers", orMissing: "give the addresses of Kafka's brokers, such as localhost:9092"
        )
        .flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
        if brokers.count > SinkDefinitionReader.maxServers {
            reader.note("brokers", "there are more than \(SinkDefinitionReader.maxServers)")
        }
        for broker in brokers where !isBroker(broker) { reader.note("brokers", "\"\(broker)\" is not HOST:PORT") }
        let topic = reader.text("topic", orMissing: "name the topic of the messages")
        if let topic, !isTopic(topic) {
            reader.note("topic", "a topic's name has 1 to 249 letters, digits, points, _ and -")
        }
        let properties = properties(&reader)
        let pace = SinkPace(&reader, form)
        problems += reader.problems
        guard reader.problems.isEmpty, let topic else { return nil }
        return KafkaDefinition(brokers: brokers, topic: topic, properties: properties, pace: pace)
    }

    /// The brokers' names or addresses.
    var hosts: [String] { brokers.map { SinkHost.name(ofServer: $0) } }

    private static func isBroker(_ text: String) -> Bool {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[colon...].dropFirst()), port > 0 else {
            return false
        }
        let host = text[..<colon]
        return !host.isEmpty && host.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2F && $0 != 0x40 }
    }

    private static func isTopic(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2E, 0x5F, 0x2D: true
            default: false
            }
        }
        return isPlain && text.utf8.count <= 249 && text != "." && text != ".."
    }

    private static func properties(_ reader: inout SinkDefinitionReader) -> [String: SinkSecret] {
        var properties: [String: SinkSecret] = [:]
        for (name, text) in reader.settings("properties") {
            let value = SinkSecret(text)
            properties[name] = value
            let part = "properties.\(name)"
            guard KafkaProperty.allowed.contains(name) else {
                reader.note(
                    part,
                    "can't be set here; allowed are \(KafkaProperty.allowed.sorted().joined(separator: ", "))")
                continue
            }
            if let fault = value.fault { reader.note(part, fault) }
            switch value {
            case .variable: break
            case .text where KafkaProperty.files.contains(name):
                reader.note(part, "this should be env:NAME, an environment variable of the gateway that names the file")
            case .text(let secret):
                if let fault = KafkaProperty.fault(name, secret.revealed()) { reader.note(part, fault) }
            }
        }
        return properties
    }

    /// Writes the definition with the defaults of omitted members.
    public func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        writer.beginObject()
        writer.writeKey("brokers", isFirst: true)
        writer.writeTexts(brokers)
        writer.writeMember("topic", topic)
        if !properties.isEmpty {
            writer.writeKey("properties", isFirst: false)
            writer.beginObject()
            for (index, property) in properties.sorted(by: { $0.key < $1.key }).enumerated() {
                writer.writeKey(property.key, isFirst: index == 0)
                let isShown = form == .stored || !KafkaProperty.secret.contains(property.key)
                writer.writeString(property.value.definitionText(showsSecrets: isShown))
            }
            writer.endObject()
        }
        pace.write(to: &writer, as: form)
        writer.endObject()
    }
}
