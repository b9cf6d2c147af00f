public import Tree

/// The answer to one request of a realtime client (reference: rtdb-protocol 2.1, 2.5).
public struct ServerResponse: Sendable, Equatable {
    /// The number of the request.
    public let number: Int64
    public let status: RealtimeStatus
    /// What comes with the status, as it was sent: a text, an object, or the data that a `get` asked for.
    public let detail: RawJSON

    /// As of which entry the answer is; a write's own entry. Nil where the gateway was not asked to say.
    public let mark: LogMark?

    public init(number: Int64, status: RealtimeStatus, detail: RawJSON, mark: LogMark? = nil) {
        self.mark = mark
        self.number = number
        self.status = status
        self.detail = detail
    }

    /// The explanation that comes with an error; nil where the detail is no text, or an empty one.
    public var explanation: String? {
        guard let text = detail.string, !text.isEmpty else { return nil }
        return text
    }

    /// The data that a `get` was answered with.
    public func value() throws(MessageError) -> Node {
        try MessageValue.node(detail, below: 0)
    }

    /// Whether a listen is answered without the index that its query asks for.
    public var warnsOfMissingIndex: Bool {
        guard let warnings = detail.members?.last(where: { $0.key == "w" })?.value.elements else { return false }
        return warnings.contains { $0.string == "no_index" }
    }

    /// What a login is answered with; nil for any other answer.
    public var login: LoginAnswer? { LoginAnswer(detail) }
}

/// What a successful login is answered with (reference: rtdb-protocol 10.1).
public struct LoginAnswer: Sendable, Equatable {
    /// The `auth` that rules see, as JSON: its keys may be what no key of the database can be. Nil for administrators.
    public let auth: RawJSON?
    /// When the credential ends, in seconds since 1970; nil for never.
    public let expires: Int64?

    init?(_ detail: RawJSON) {
        guard let members = detail.members else { return nil }
        let fields = MessageFields(members)
        guard let auth = fields["auth"] else { return nil }
        self.auth = auth.isNull ? nil : auth
        expires = fields["expires"]?.integer
    }
}

/// The status of an answer. The protocol's are named here; any other text is possible.
public struct RealtimeStatus: RawRepresentable, Hashable, Sendable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let ok = RealtimeStatus(rawValue: "ok")
    /// Refused by rules.
    public static let permissionDenied = RealtimeStatus(rawValue: "permission_denied")
    /// The hash of a transaction is not that of the value that is there.
    public static let dataStale = RealtimeStatus(rawValue: "datastale")
    public static let unavailable = RealtimeStatus(rawValue: "unavailable")
    public static let tooBig = RealtimeStatus(rawValue: "too_big")
    public static let expiredToken = RealtimeStatus(rawValue: "expired_token")
    public static let invalidToken = RealtimeStatus(rawValue: "invalid_token")
    public static let failure = RealtimeStatus(rawValue: "failure")
    /// The gateway can't go on behind the entry that a listen has named: it has to be asked with a hash.
    public static let notResumed = RealtimeStatus(rawValue: "not_resumed")
}
