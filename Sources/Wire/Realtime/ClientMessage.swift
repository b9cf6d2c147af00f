public import Tree

/// A parsed message of a realtime client (reference: rtdb-protocol 1.2 and 2).
public enum ClientMessage: Sendable, Equatable {
    case ping
    /// A control message, which matters only to a transport upgrade.
    case control(String)
    case request(ClientRequest)
}

/// A data message's request.
public struct ClientRequest: Sendable, Equatable {
    /// The client's number for the request, repeated in the answer.
    public let number: Int64
    public let action: ClientAction
    /// The client's name for its write (the gateway's extension); nil if it has none, or the request is not a write.
    public let name: WriteName?

    public init(number: Int64, action: ClientAction, name: WriteName? = nil) {
        self.number = number
        self.action = action
        self.name = name
    }
}

/// The action of a request. `byteCount` is the size of the data as it was received; it is never written.
public enum ClientAction: Sendable, Equatable {
    /// The client's usage counters, which the gateway ignores.
    case stats(RawJSON?)
    /// `after` is the resumption text of the mark of the client's data, which replaces hashes (the gateway's
    /// extension).
    case listen(ListenTarget, hash: String, compound: CompoundHash?, after: String? = nil)
    case unlisten(ListenTarget)
    case get(Path, Query?)
    case put(Path, JSONParser.Parsed, hash: String?, byteCount: Int)
    case merge(Path, [Change], hasServerValue: Bool, hash: String?, byteCount: Int)
    case onDisconnectPut(Path, Node)
    case onDisconnectMerge(Path, [Change])
    case onDisconnectCancel(Path)
    case authenticate(AuthRequest)
    case unauthenticate
    /// An App Check token; nil withdraws it.
    case appCheck(token: String?)
    case echo(RawJSON)
    /// Requests an answer after all changes up to the seq have been pushed to the client. `path` is a path that the
    /// client may read, which entitles it to learn the log position (the gateway's extension).
    case wait(seq: Int64, path: Path?)
    /// A write that `mayWrite` rejected by its path; its data was not parsed.
    case denied
    /// A request with an invalid or unknown action; it is answered with a failure.
    case refused(String)

    /// Whether the answer depends on the database: on data, or on rules that read data.
    public var reads: Bool {
        switch self {
        case .listen, .get, .onDisconnectPut, .onDisconnectMerge: true
        default: false
        }
    }

    /// Whether the action changes the database.
    public var writes: Bool {
        switch self {
        case .put, .merge: true
        default: false
        }
    }
}

/// The path and query of a listen, and the tag of its pushes.
public struct ListenTarget: Sendable, Hashable {
    public let path: Path
    /// Nil for a default listen, which receives all data.
    public let query: Query?
    public let tag: Int64?
    /// The query as the client wrote it, for a cancel.
    public let queryText: [UInt8]?

    /// - Parameter queryText: the query's text, if it is already known; otherwise it is encoded when needed.
    public init(path: Path, query: Query?, tag: Int64?, queryText: [UInt8]? = nil) {
        self.path = path
        self.query = query
        self.tag = tag
        self.queryText = queryText
    }

    public static func == (left: ListenTarget, right: ListenTarget) -> Bool {
        left.path == right.path && left.query == right.query
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(path)
        hasher.combine(query)
    }
}

/// A login.
public struct AuthRequest: Sendable, Equatable {
    public let credential: String
    /// JSON that replaces `auth` in the rules, for administrators.
    public let override: [UInt8]?
    /// Whether rules treat the caller as anonymous.
    public let isUnauthenticated: Bool
    /// Whether the action is `gauth`, with an administrator's credential.
    public let isGoogle: Bool

    public init(
        credential: String, override: [UInt8]? = nil, isUnauthenticated: Bool = false, isGoogle: Bool = false
    ) {
        self.credential = credential
        self.override = override
        self.isUnauthenticated = isUnauthenticated
        self.isGoogle = isGoogle
    }
}
