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
        case "cancel": self = .cancel(reason: RawJSON(event.data).string)
        case "auth_revoked": self = .authRevoked(reason: RawJSON(event.data).string)
        case "rules_debug":
            self = .rulesDebug(RawJSON(event.data).string ?? String(decoding: event.data, as: UTF8.self))
        default: self = .unknown(name: event.name)
        }
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
