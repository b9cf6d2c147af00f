public import Tree

/// What a realtime client sends, understood (reference: rtdb-protocol 1.2 and 2).
public enum ClientMessage: Sendable, Equatable {
    case ping
    /// Control messages that only matter to a transport upgrade.
    case control(String)
    case request(ClientRequest)
}

/// A data message's request.
public struct ClientRequest: Sendable, Equatable {
    /// The client's number for it, repeated in the answer.
    public let number: Int64
    public let action: ClientAction
    /// What the client calls its write (the gateway's extension); nil for what is no write, or has no name.
    public let name: WriteName?

    public init(number: Int64, action: ClientAction, name: WriteName? = nil) {
        self.number = number
        self.action = action
        self.name = name
    }
}

/// What a request asks for. `byteCount` is that of the data as it was read; nobody writes it.
public enum ClientAction: Sendable, Equatable {
    /// How often the client used what; the counters are not looked at.
    case stats(RawJSON?)
    /// `behind`: the resumption of the mark of what the client has, instead of hashes (the gateway's extension).
    case listen(ListenTarget, hash: String, compound: CompoundHash?, behind: String? = nil)
    case unlisten(ListenTarget)
    case get(Path, Query?)
    case put(Path, JSONParser.Parsed, hash: String?, byteCount: Int)
    case merge(Path, [Change], hasServerValue: Bool, hash: String?, byteCount: Int)
    case onDisconnectPut(Path, Node)
    case onDisconnectMerge(Path, [Change])
    case onDisconnectCancel(Path)
    case authenticate(AuthRequest)
    case unauthenticate
    /// A proof that the app is genuine; nil takes it back.
    case appCheck(token: String?)
    case echo(RawJSON)
    /// To be answered once all that the log has up to the seq has been pushed to the client. `path`: a place that it may
    /// read, which shows that it may know of the log (the gateway's extension).
    case wait(seq: Int64, path: Path?)
    /// A write that is not let in wherever it is; nothing more of it was read.
    case denied
    /// Understood as a request, but not what it asks for: answered with a failure.
    case refused(String)

    /// Whether its answer depends on what is in the database: data, and what rules find there.
    public var reads: Bool {
        switch self {
        case .listen, .get, .onDisconnectPut, .onDisconnectMerge: true
        default: false
        }
    }

    /// Whether it changes what is in the database.
    public var writes: Bool {
        switch self {
        case .put, .merge: true
        default: false
        }
    }
}

/// The place and query of a listen, and the tag that its pushes carry.
public struct ListenTarget: Sendable, Hashable {
    public let path: Path
    /// Nil for a default listen, which has all data.
    public let query: Query?
    public let tag: Int64?
    /// The query as the client wrote it, for a cancel.
    public let queryText: [UInt8]?

    /// - Parameter queryText: the query's text where it is known already; without it a writer makes it.
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
    /// JSON that stands for `auth` in the rules, for administrators.
    public let override: [UInt8]?
    /// Evaluated as nobody.
    public let isUnauthenticated: Bool
    /// `gauth`: an administrator's credential.
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
