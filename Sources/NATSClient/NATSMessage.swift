import JSONText

/// A message for a JetStream stream.
public struct NATSMessage: Sendable, Equatable {
    public var subject: String
    /// The id by which the stream detects a repeated message within its duplicate window.
    public var id: String
    /// The stream that must store the message, or nil for any stream that accepts the subject.
    public var expectedStream: String?
    /// Names and values, which must not contain line breaks.
    public var headers: [Header]
    public var body: [UInt8]

    public struct Header: Sendable, Equatable {
        public let name: String
        public let value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(
        subject: String, id: String, expectedStream: String? = nil, headers: [Header] = [], body: [UInt8]
    ) {
        self.subject = subject
        self.id = id
        self.expectedStream = expectedStream
        self.headers = headers
        self.body = body
    }

    /// The headers for JetStream followed by the caller's headers.
    var allHeaders: [Header] {
        var all = [Header("Nats-Msg-Id", id)]
        if let expectedStream { all.append(Header("Nats-Expected-Stream", expectedStream)) }
        return all + headers
    }

    /// The reason why the message is invalid for any server, or nil if it is valid.
    var fault: NATSError? {
        let parts = subject.split(separator: ".", omittingEmptySubsequences: false)
        guard subject.utf8.count <= Self.maxSubjectBytes else {
            return .badMessage("its subject has more than \(Self.maxSubjectBytes) bytes")
        }
        guard parts.allSatisfy({ !$0.isEmpty && $0 != "*" && $0 != ">" }),
            subject.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
        else { return .badMessage("\"\(subject)\" is not a subject for publishing") }
        for header in allHeaders {
            let isName = !header.name.isEmpty && header.name.utf8.allSatisfy { 0x21...0x7E ~= $0 && $0 != 0x3A }
            guard isName, header.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                return .badMessage("the header \(header.name) has a control character")
            }
        }
        return nil
    }

    /// A server limits a control line to 4,096 bytes, which also contain the reply subject.
    private static let maxSubjectBytes = 3_000
}

/// The position of a message in a stream.
public struct NATSAcknowledgement: Sendable, Equatable {
    public let stream: String
    public let sequence: UInt64
    /// Whether the stream already had the message.
    public let isDuplicate: Bool

    public init(stream: String, sequence: UInt64, isDuplicate: Bool) {
        self.stream = stream
        self.sequence = sequence
        self.isDuplicate = isDuplicate
    }
}

/// JetStream's reply to a message: `{"stream":"ORDERS","seq":7}`, with `"duplicate":true` if the stream already had it, or
/// `{"error":{"code":400,"err_code":10060,"description":"…"}}`.
enum AcknowledgementText {
    static func read(_ bytes: [UInt8]) -> Result<NATSAcknowledgement, NATSError> {
        guard case .object(let members)? = (try? SourceText.read(bytes))?.kind else {
            return .failure(.rejected(code: 0, "its answer is not JSON"))
        }
        if let error = value("error", members), case .object(let parts) = error {
            let code = number(value("err_code", parts)) ?? number(value("code", parts)) ?? 0
            return .failure(
                .rejected(code: Int(clamping: code), text(value("description", parts)) ?? "no reason given"))
        }
        guard let stream = text(value("stream", members)), !stream.isEmpty, let seq = number(value("seq", members))
        else {
            return .failure(.rejected(code: 0, "its answer names no stream"))
        }
        var isDuplicate = false
        if case .bool(true)? = value("duplicate", members) { isDuplicate = true }
        return .success(NATSAcknowledgement(stream: stream, sequence: seq, isDuplicate: isDuplicate))
    }

    private static func value(_ key: String, _ members: [SourceValue.Member]) -> SourceValue.Kind? {
        members.first { $0.key == key }?.value.kind
    }

    private static func text(_ value: SourceValue.Kind?) -> String? {
        // The text of another server is limited in length.
        if case .string(let text)? = value { String(text.prefix(300)) } else { nil }
    }

    private static func number(_ value: SourceValue.Kind?) -> UInt64? {
        if case .number(let text)? = value { UInt64(text) } else { nil }
    }
}
