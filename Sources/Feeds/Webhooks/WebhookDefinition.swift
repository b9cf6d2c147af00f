public import Runtime
public import Tree

/// How a feed's messages are sent to somebody's HTTP server.
public struct WebhookDefinition: Sendable, Equatable {
    /// What a delivery looks like.
    public enum Format: String, Sendable, CaseIterable {
        /// The message as consumers that pull see it; several in `{"messages": […]}`.
        case message
        /// CloudEvents 1.0 in structured mode; several in its batch format.
        case cloudEvents = "cloudevents"
    }

    public struct Header: Sendable, Equatable {
        public let name: String
        public let value: SinkSecret
    }

    public let url: String
    /// The newest first; several while one takes the place of another.
    public let secrets: [SinkSecret]
    /// Headers beside those of ours.
    public let headers: [Header]
    /// How many messages one request has at most.
    public let batch: Int
    /// How many requests are under way at once.
    public let concurrency: Int
    /// For a whole request.
    public let timeoutMilliseconds: Milliseconds
    public let connectTimeoutMilliseconds: Milliseconds
    public let format: Format

    static let defaultBatch = 1
    static let defaultConcurrency = 4
    static let defaultTimeoutMilliseconds: Milliseconds = 10_000
    static let defaultConnectTimeoutMilliseconds: Milliseconds = 5_000
    static let batchRange = 1...1_000
    static let concurrencyRange = 1...64
    static let timeoutRange: ClosedRange<Milliseconds> = 100...60_000
    static let maxSecrets = 4
    static let maxHeaders = 20
    static let maxURLBytes = 2_048
    static let maxHeaderBytes = 4_096

    /// Names of headers that say how a request is to be read, or that it is ours.
    static func isOurs(_ name: String) -> Bool {
        let name = name.lowercased()
        return name.hasPrefix("webhook-") || ourHeaders.contains(name)
    }

    private static let ourHeaders: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    /// Whether a header can have this value.
    static func isHeaderValue(_ text: String) -> Bool {
        text.utf8.count <= maxHeaderBytes && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}

extension WebhookDefinition {
    /// Writes the definition as a JSON object, with what was left out filled in.
    public func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        let showsSecrets = form == .stored
        writer.beginObject()
        writer.writeKey("url", isFirst: true)
        writer.writeString(url)
        writer.writeKey("secrets", isFirst: false)
        writer.raw("[")
        for (index, secret) in secrets.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(secret.definitionText(showsSecrets: showsSecrets))
        }
        writer.raw("]")
        writer.writeKey("headers", isFirst: false)
        writer.beginObject()
        for (index, header) in headers.enumerated() {
            writer.writeKey(header.name, isFirst: index == 0)
            writer.writeString(header.value.definitionText(showsSecrets: showsSecrets))
        }
        writer.endObject()
        for (key, number) in [("batch", Int64(batch)), ("concurrency", Int64(concurrency))] {
            writer.writeKey(key, isFirst: false)
            writer.writeInteger(number)
        }
        writer.writeDuration("timeout", timeoutMilliseconds, as: form)
        writer.writeDuration("connect_timeout", connectTimeoutMilliseconds, as: form)
        writer.writeKey("format", isFirst: false)
        writer.writeString(format.rawValue)
        writer.endObject()
    }
}
