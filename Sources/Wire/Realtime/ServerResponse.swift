public import Tree

/// The answer to one request of a realtime client (reference: rtdb-protocol 2.1, 2.5).
public struct ServerResponse: Sendable, Equatable {
    /// The number of the request.
    public let number: Int64
    public let status: RealtimeStatus
    /// The content besides the status, as it was sent: a text, an object, or the data of a `get`.
    public let detail: RawJSON

    /// The entry that the answer reflects; for a write, its own entry. Nil if the client did not request the extension.
    public let mark: LogMark?

    public init(number: Int64, status: RealtimeStatus, detail: RawJSON, mark: LogMark? = nil) {
        self.mark = mark
        self.number = number
        self.status = status
        self.detail = detail
    }

    /// The explanation of an error; nil if the detail is not a text, or is empty.
    public var explanation: String? {
        guard let text = detail.string, !text.isEmpty else { return nil }
        return text
    }

    /// Returns the data that answers a `get`.
    public func value() throws(MessageError) -> Node {
        try MessageValue.node(detail, below: 0)
    }

    /// Whether the answer to a listen warns that the rules lack the index of its query.
    public var warnsOfMissingIndex: Bool {
        guard let warnings = detail.members?.last(where: { $0.key == "w" })?.value.elements else { return false }
        return warnings.contains { $0.string == "no_index" }
    }

    /// The content of the answer to a login; nil for any other answer.
    public var login: LoginAnswer? { LoginAnswer(detail) }
}

/// The content of the answer to a successful login (reference: rtdb-protocol 10.1).
public struct LoginAnswer: Sendable, Equatable {
    /// The value of `auth` in rules, as JSON, because its keys may be invalid in the database. Nil for administrators.
    public let auth: RawJSON?
    /// The end of the credential, in seconds since 1970; nil for no end.
    public let expires: Int64?

    init?(_ detail: RawJSON) {
        guard let members = detail.members else { return nil }
        let fields = MessageFields(members)
        guard let auth = fields["auth"] else { return nil }
        self.auth = auth.isNull ? nil : auth
        expires = fields["expires"]?.integer
    }
}

/// The status of an answer. The protocol's statuses are defined here; any other text is possible.
public struct RealtimeStatus: RawRepresentable, Hashable, Sendable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let ok = RealtimeStatus(rawValue: "ok")
    /// The rules denied the request.
    public static let permissionDenied = RealtimeStatus(rawValue: "permission_denied")
    /// The hash of a transaction does not match the current value.
    public static let dataStale = RealtimeStatus(rawValue: "datastale")
    public static let unavailable = RealtimeStatus(rawValue: "unavailable")
    public static let tooBig = RealtimeStatus(rawValue: "too_big")
    public static let expiredToken = RealtimeStatus(rawValue: "expired_token")
    public static let invalidToken = RealtimeStatus(rawValue: "invalid_token")
    public static let failure = RealtimeStatus(rawValue: "failure")
    /// The gateway can't resume after the entry that a listen names: the client has to listen with a hash.
    public static let notResumed = RealtimeStatus(rawValue: "not_resumed")
}
