public import Runtime
public import Tree

/// The member `webhook` of a feed's definition: how messages are sent to an HTTP server.
public struct WebhookDefinition: Sendable, Equatable {
    /// The format of a request's body.
    public enum Format: String, Sendable, CaseIterable {
        /// The message as consumers receive it from pulls; several messages in `{"messages": […]}`.
        case message
        /// CloudEvents 1.0 in structured mode; several messages in its batch format.
        case cloudEvents = "cloudevents"
        /// Database events of Cloud Functions, one in each request.
        case firebase
    }

    public struct Header: Sendable, Equatable {
        public let name: String
        public let value: SinkSecret
    }

    public let url: String
    /// The secrets, the newest first. There are several while a secret is being replaced.
    public let secrets: [SinkSecret]
    /// Additional headers.
    public let headers: [Header]
    /// The maximum number of messages in one request.
    public let batch: Int
    /// The maximum number of requests in flight.
    public let concurrency: Int
    /// The timeout of a whole request.
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

    /// Returns whether Pathmirror sets a header itself: it determines how the request is read, or identifies it.
    static func isOurs(_ name: String, in format: Format) -> Bool {
        let name = name.lowercased()
        return name.hasPrefix("webhook-") || ourHeaders.contains(name)
            || format == .firebase && name.hasPrefix(FirebaseEvent.headerPrefix)
    }

    private static let ourHeaders: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    /// Returns whether a header can have this value.
    static func isHeaderValue(_ text: String) -> Bool {
        text.utf8.count <= maxHeaderBytes && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}

extension WebhookDefinition {
    /// Writes the definition as a JSON object, with the defaults of omitted members.
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
