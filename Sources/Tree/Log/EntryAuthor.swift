/// The author of an entry, as the messages of feeds and their filters show it.
public struct EntryAuthor: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// A user whose write the security rules admitted.
        case user
        /// An administrator, a command or an SQL session. The security rules did not apply.
        case admin
        /// A client without a login.
        case nobody = "none"
        /// The log does not name the author: the write was made upstream, or the message belongs to a snapshot.
        case unknown
    }

    public let kind: Kind
    /// The user's id, or nil if the author has none.
    public let uid: String?

    public static let unknown = EntryAuthor(.unknown)

    public init(_ kind: Kind, uid: String? = nil) {
        self.kind = kind
        self.uid = uid
    }

    /// Reads an entry's origin. Entries that a follower writes have none.
    public init(of origin: Origin?) {
        guard let members = origin.flatMap({ RawJSON($0.json).members }) else {
            self = .unknown
            return
        }
        let uid = members.first { $0.key == "uid" }?.value.string
        let isAdmin = members.first { $0.key == "admin" }?.value.bool ?? false
        self.init(isAdmin ? .admin : uid == nil ? .nobody : .user, uid: uid)
    }

    /// Reads the format of `write`. Returns nil if the text has another format.
    public init?(written json: RawJSON) {
        guard let members = json.members, let text = members.first(where: { $0.key == "type" })?.value.string,
            let kind = Kind(rawValue: text)
        else { return nil }
        self.init(kind, uid: members.first { $0.key == "uid" }?.value.string)
    }

    /// Writes the author as a JSON object: `{"type":"user","uid":"ada"}`.
    public func write(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.writeKey("type", isFirst: true)
        writer.writeString(kind.rawValue)
        writer.writeKey("uid", isFirst: false)
        if let uid { writer.writeString(uid) } else { writer.raw("null") }
        writer.endObject()
    }

    /// The author as the variable `auth` of a filter.
    public var node: Node {
        Node(children: [(Key("type"), .string(kind.rawValue)), (Key("uid"), uid.map { .string($0) } ?? .null)])
    }
}
