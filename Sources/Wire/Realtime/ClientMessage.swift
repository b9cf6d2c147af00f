public import Tree

/// What a realtime client sends, understood (reference: rtdb-protocol 1.2 and 2).
public enum ClientMessage: Sendable {
    case ping
    /// Control messages that only matter to a transport upgrade.
    case control(String)
    case request(ClientRequest)
}

/// A data message's request.
public struct ClientRequest: Sendable {
    /// The client's number for it, repeated in the answer.
    public let number: Int64
    public let action: ClientAction
}

public enum ClientAction: Sendable {
    case stats
    case listen(ListenTarget, hash: String, compound: CompoundHash?)
    case unlisten(ListenTarget)
    case get(Path, Query?)
    case put(Path, JSONParser.Parsed, hash: String?, byteCount: Int)
    case merge(Path, [Change], hasServerValue: Bool, hash: String?, byteCount: Int)
    case onDisconnectPut(Path, Node)
    case onDisconnectMerge(Path, [Change])
    case onDisconnectCancel(Path)
    case authenticate(AuthRequest)
    case unauthenticate
    case appCheck
    case echo(RawJSON)
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

    public static func == (left: ListenTarget, right: ListenTarget) -> Bool {
        left.path == right.path && left.query == right.query
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(path)
        hasher.combine(query)
    }
}

/// A login.
public struct AuthRequest: Sendable {
    public let credential: String
    /// JSON that stands for `auth` in the rules, for administrators.
    public let override: [UInt8]?
    /// Evaluated as nobody.
    public let isUnauthenticated: Bool
    /// `gauth`: an administrator's credential.
    public let isGoogle: Bool
}

/// The hashes of the parts of what a client has (reference: rtdb-protocol 3.7).
public struct CompoundHash: Sendable, Equatable {
    public let posts: [Path]
    public let hashes: [String]

    public init?(posts: [Path], hashes: [String]) {
        guard hashes.count == posts.count + 1 else { return nil }
        self.posts = posts
        self.hashes = hashes
    }
}
