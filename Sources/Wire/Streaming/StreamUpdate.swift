import Tree

/// What an event of a REST stream says (reference: rtdb-protocol 8).
public enum StreamUpdate: Sendable, Equatable {
    /// Data, at a path below the one that is listened to.
    case change(ChangeEvent)
    case keepAlive
    /// The place may not be read any more; the server closes the stream.
    case cancel(reason: String?)
    /// The credential has ended; the server closes the stream.
    case authRevoked(reason: String?)
    /// Text of a debugging login, for the client's log.
    case rulesDebug(String)
    /// A name that is not known here; clients go on.
    case unknown(name: String)

    /// Reads an event. The data is in the form that the request asked for: arrays become children with index keys.
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

    /// The text of an event that carries no JSON, or that carries a JSON string; nil for `null`.
    private static func text(_ data: [UInt8]) -> String? {
        let text = String(decoding: data, as: UTF8.self)
        return text == "null" ? nil : RawJSON(data).string ?? text
    }

    /// The members of `{"path":…,"data":…}`.
    private static func parts(_ text: [UInt8]) throws(MessageError) -> (path: Path, data: RawJSON) {
        guard let members = RawJSON(text).members else { throw MessageError(reason: "an event without an object") }
        let fields = MessageFields(members)
        guard let data = fields["data"] else { throw MessageError(reason: "an event without data") }
        let path = try fields.requiredString("path", of: "an event")
        return (try MessageValue.checked(Path(splitting: path)), data)
    }
}
