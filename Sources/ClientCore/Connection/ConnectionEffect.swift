public import Tree
public import Wire

/// The number of one try to connect; greater with each.
public struct ConnectionNumber: Sendable, Hashable, Comparable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    public static func < (left: ConnectionNumber, right: ConnectionNumber) -> Bool { left.rawValue < right.rawValue }
}

/// What is to be done for a connection, in the order in which it is told.
public enum ConnectionEffect: Sendable, Equatable {
    /// Connect; the transport's events come back with this number. An older connection has been told to close before.
    case open(RealtimeAddress, ConnectionNumber)
    /// Send one text message over the connection that was opened last.
    case send([UInt8])
    /// Ask for the hash of what is known of the listen's query now, and send the listen's messages with it.
    case sendListen(ListenRequest)
    /// Close the connection that was opened last. What it tells after this is ignored.
    case close(reason: String)
    /// Get a token from the app, and answer by `tokenProvided` or `tokenFailed`. `isForced`: not one that was given before.
    case askForToken(isForced: Bool)
    /// Get a proof that the app is genuine, and answer by `setAppCheckToken`.
    case askForAppCheckToken
    case report(ConnectionReport)
}

/// A listen that is to be sent.
public struct ListenRequest: Sendable, Equatable {
    public let spec: QuerySpec
    public let tag: ListenTag?
    let number: Int64
    /// Whether the server can be asked to go on behind what is known (`SyncTree.resumption`); where it refused to, it is asked
    /// with hashes.
    public let mayResume: Bool

    /// The texts to send, in order.
    ///
    /// - Parameters:
    ///   - hash: of what is known of the listen's data (`Node.hash`, of a query's data without the node's own priority);
    ///     empty for nothing.
    ///   - compound: of the same, where that is complete and large enough to be worth it. For default listens only.
    ///   - behind: by which the server may go on where the listen was, instead of hashes.
    public func messages(hash: String, compound: CompoundHash? = nil, behind: String? = nil) -> [[UInt8]] {
        let target = ListenTarget(
            path: spec.path, query: spec.loadsAllData ? nil : spec.query, tag: tag?.rawValue)
        let action = ClientAction.listen(target, hash: hash, compound: compound, behind: behind)
        return OutgoingMessage.frames(ClientRequest(number: number, action: action))
    }
}

/// The number that the owner gives a request that is no write, unique within a database.
public struct RequestID: Sendable, Hashable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// What a connection tells its owner, in the order in which it happened.
public enum ConnectionReport: Sendable, Equatable {
    /// The server has greeted. `serverTime`: its clock in milliseconds since 1970, now; less the own clock's time it is the
    /// server's time offset.
    case connected(serverTime: Int64)
    /// The connection ended that `connected` was told of. What was lost with it has been told before.
    case disconnected(reason: String)
    /// A try to connect failed; the next one begins in so many milliseconds.
    case connectFailed(reason: String, retryAfter: Int64)

    /// Data of listens, at a path from the root on. `tag`: of the listen that it belongs to; nil for default listens.
    /// `mark`: as of which entry the listen's data is with it, where the server says so.
    case changed(ChangeEvent, tag: ListenTag?, mark: LogMark? = nil)
    /// Parts of the data at the path, for `RangeMerge.apply`.
    case ranges(Path, [RangeMerge], tag: ListenTag?, mark: LogMark? = nil)
    /// All that the listen selects has been told.
    case listenCompleted(QuerySpec, tag: ListenTag?, lacksIndex: Bool, mark: LogMark? = nil)
    /// The server refused the listen, or revoked it: it is gone.
    case listenRefused(QuerySpec, tag: ListenTag?, RequestFailure)

    /// Told exactly once for each write.
    /// `seq`: of the write's entry in the server's log, where it was done and the server says so.
    case writeAnswered(WriteID, RequestOutcome, seq: Int64? = nil)
    /// Told exactly once for each request.
    case onDisconnectAnswered(RequestID, RequestOutcome)
    /// Told exactly once for each request that was not cancelled.
    case getAnswered(RequestID, GetOutcome)
    /// Told once for each wait that was not cancelled.
    case waitAnswered(RequestID, WaitOutcome)

    /// The login was accepted; with what the server tells of it, if anything.
    case signedIn(LoginAnswer?)
    /// Nobody is signed in any more.
    case signedOut
    /// The server refused or revoked the login. It is tried again with a new token. `count`: how often in a row.
    case signInFailed(RequestFailure, count: Int)
    /// The app has no token to give, for this reason: nothing is sent before it has one.
    case tokenMissing(reason: String)
    /// The server says that this database is never to be connected to again.
    case shutDown(reason: String)
    /// The text of a debugging login.
    case securityDebug(String)
    /// Something odd about the server, for the log. Bounded in length and in number.
    case note(String)
}

/// Why the server did not do something.
public struct RequestFailure: Error, Sendable, Equatable {
    public let status: RealtimeStatus
    /// The server's words, if it had any; of bounded length.
    public let explanation: String?

    public init(status: RealtimeStatus, explanation: String? = nil) {
        self.status = status
        self.explanation = explanation
    }
}

/// What became of a write.
public enum RequestOutcome: Sendable, Equatable {
    case done
    case refused(RequestFailure)
    /// It was sent, the connection ended, and nobody knows whether it was done: a transaction, which isn't sent twice.
    case lost
    /// The owner took it back before it was answered (`purgeWrites`). It may have been done.
    case purged
}

/// What a question for data came to.
public enum GetOutcome: Sendable, Equatable {
    /// `seq`: as of which entry of the server's log, where it says so.
    case value(Node, seq: Int64? = nil)
    case refused(RequestFailure)
    /// There is no connection to ask over, or it ended before the answer.
    case lost
}

/// What a wait for an entry of the server's log came to.
public enum WaitOutcome: Sendable, Equatable {
    /// Everything up to the entry has been told of all listens that were wanted when the wait began.
    case reached(seq: Int64)
    /// The server tells who may read nothing nothing of its log, or did not understand.
    case refused(RequestFailure)
    /// The server does not know the gateway's extension.
    case unsupported
}
