public import Tree

/// Server-sent events in the form of the REST streaming protocol: `event:`, one line of `data:`, a blank line
/// (reference: rtdb-protocol 8). Clients that request ids get an `id:` line between the two; other clients may read
/// line by line.
public enum StreamEvent {
    /// Encodes a `put` or a `patch`.
    ///
    /// - Parameter id: the id with which a client resumes after this event; nil omits the line.
    public static func encode(_ event: ChangeEvent, id: String?, form: JSONForm) -> [UInt8] {
        var writer: JSONWriter
        switch event {
        case .put(let path, let value):
            writer = JSONWriter(form: form, reserving: min(96 + value.rowCount * 24, 1 << 20))
            begin(&writer, path)
            writer.write(value)
        case .patch(let path, let changes):
            writer = JSONWriter(form: form, reserving: 256)
            begin(&writer, path)
            writer.beginObject()
            for (index, change) in changes.enumerated() {
                writer.writeKey(String(change.path.description.unicodeScalars.dropFirst()), isFirst: index == 0)
                writer.write(change.value)
            }
            writer.endObject()
        }
        writer.endObject()
        return frame(name(event), id: id, data: writer.bytes)
    }

    private static func name(_ event: ChangeEvent) -> StaticString {
        switch event {
        case .put: "put"
        case .patch: "patch"
        }
    }

    private static func begin(_ writer: inout JSONWriter, _ path: Path) {
        writer.beginObject()
        writer.writeKey("path", isFirst: true)
        writer.writeString(path.description)
        writer.writeKey("data", isFirst: false)
    }

    public static let keepAlive = frame("keep-alive", id: nil, data: Array("null".utf8))

    /// Reports that the client may not read here any more; the server closes after it.
    public static let cancel = frame("cancel", id: nil, data: Array("null".utf8))

    /// Reports that the client's credential has ended; the server closes after it. The data is bare text, not JSON:
    /// SDKs compare it with this text and then reconnect.
    public static let authRevoked = frame("auth_revoked", id: nil, data: Array("credential is no longer valid".utf8))

    private static func frame(_ name: StaticString, id: String?, data: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + 64)
        bytes.append(contentsOf: "event: ".utf8)
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        if let id { bytes.append(contentsOf: "\nid: \(id)".utf8) }
        bytes.append(contentsOf: "\ndata: ".utf8)
        bytes.append(contentsOf: data)
        bytes.append(contentsOf: "\n\n".utf8)
        return bytes
    }
}

/// A parsed event of a REST stream (reference: rtdb-protocol 8).
public enum StreamUpdate: Sendable, Equatable {
    /// Data, at a path below the listener's path.
    case change(ChangeEvent)
    case keepAlive
    /// The client may not read the path any more; the server closes the stream.
    case cancel(reason: String?)
    /// The credential has ended; the server closes the stream.
    case authRevoked(reason: String?)
    /// Text of a debugging login, for the client's log.
    case rulesDebug(String)
    /// An unknown name; clients continue.
    case unknown(name: String)

    /// Parses an event. The data has the form that the request asked for: arrays become children with index keys.
    public init(_ event: ServerSentEvent) throws(MessageError) {
        switch event.name {
        case "put":
            let (path, data) = try Self.parts(event.data)
            self = .change(.put(path, try MessageValue.node(data, at: path)))
        case "patch":
            let (path, data) = try Self.parts(event.data)
            self = .change(.patch(path, try MessageValue.changes(data, at: path)))
        case "keep-alive": self = .keepAlive
        case "cancel": self = .cancel(reason: Self.text(event.data))
        case "auth_revoked": self = .authRevoked(reason: Self.text(event.data))
        case "rules_debug": self = .rulesDebug(Self.text(event.data) ?? "null")
        default: self = .unknown(name: event.name)
        }
    }

    /// Returns the text of an event without JSON, or with a JSON string; nil for `null`.
    private static func text(_ data: [UInt8]) -> String? {
        let text = String(decoding: data, as: UTF8.self)
        return text == "null" ? nil : RawJSON(data).string ?? text
    }

    /// Parses `{"path":…,"data":…}`.
    private static func parts(_ text: [UInt8]) throws(MessageError) -> (path: Path, data: RawJSON) {
        guard let members = RawJSON(text).members else { throw MessageError(reason: "an event without an object") }
        let fields = MessageFields(members)
        guard let data = fields["data"] else { throw MessageError(reason: "an event without data") }
        let path = try fields.requiredString("path", of: "an event")
        return (try MessageValue.checked(Path(splitting: path)), data)
    }
}
