public import Tree
public import Wire

/// The number of one attempt to connect; greater with each attempt.
public struct ConnectionNumber: Sendable, Hashable, Comparable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    public static func < (left: ConnectionNumber, right: ConnectionNumber) -> Bool { left.rawValue < right.rawValue }
}

/// A task for the owner of a connection, to be executed in order.
public enum ConnectionEffect: Sendable, Equatable {
    /// Connect; the transport's events are passed back with this number. An older connection was closed by an earlier
    /// effect.
    case open(RealtimeAddress, ConnectionNumber)
    /// Send one text message over the connection that was opened last.
    case send([UInt8])
    /// Compute the hash of the data known for the listen's query now, and send the listen's messages with it.
    case sendListen(ListenRequest)
    /// Close the connection that was opened last. Its later events are ignored.
    case close(reason: String)
    /// Get a token from the app, and answer by `tokenProvided` or `tokenFailed`. `isForced`: the token must differ from
    /// those given before.
    case askForToken(isForced: Bool)
    /// Get a proof that the app is genuine, and answer by `setAppCheckToken`.
    case askForAppCheckToken
    case report(ConnectionReport)
}

/// A listen to be sent.
public struct ListenRequest: Sendable, Equatable {
    public let spec: QuerySpec
    public let tag: ListenTag?
    let number: Int64
    /// Whether the server can be asked to resume after the known data (`SyncTree.resumption`). After a refusal, the
    /// listen is sent with hashes.
    public let mayResume: Bool

    /// Returns the texts to send, in order.
    ///
    /// - Parameters:
    ///   - hash: of the known data of the listen (`Node.hash`; for a query's data without the node's own priority);
    ///     empty if there is none.
    ///   - compound: the compound hash of that data, if it is complete and large enough. For default listens only.
    ///   - after: the position after which the server may resume the listen, instead of hashes.
    public func messages(hash: String, compound: CompoundHash? = nil, after: String? = nil) -> [[UInt8]] {
        let target = ListenTarget(
            path: spec.path, query: spec.loadsAllData ? nil : spec.query, tag: tag?.rawValue)
        let action = ClientAction.listen(target, hash: hash, compound: compound, after: after)
        return OutgoingMessage.frames(ClientRequest(number: number, action: action))
    }
}

/// The number that the owner gives a request other than a write, unique within a database.
public struct RequestID: Sendable, Hashable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// An event that a connection reports to its owner, in the order in which events happened.
public enum ConnectionReport: Sendable, Equatable {
    /// The server has greeted. `serverTime`: the server's present clock in milliseconds since 1970; minus the local
    /// time, it is the server's time offset.
    case connected(serverTime: Int64)
    /// The connection reported by `connected` has ended. Requests lost with it have been reported before.
    case disconnected(reason: String)
    /// An attempt to connect failed; the next one begins after `retryAfter` milliseconds.
    case connectFailed(reason: String, retryAfter: Int64)

    /// Data of listens, at a path from the root. `tag`: of the listen that the data belongs to; nil for default
    /// listens. `mark`: the log position of the listen's data after this change, if the server sends it.
    case changed(ChangeEvent, tag: ListenTag?, mark: LogMark? = nil)
    /// Parts of the data at the path, for `RangeMerge.apply`.
    case ranges(Path, [RangeMerge], tag: ListenTag?, mark: LogMark? = nil)
    /// All data that the listen selects has been reported.
    case listenCompleted(QuerySpec, tag: ListenTag?, lacksIndex: Bool, mark: LogMark? = nil)
    /// The server refused the listen, or revoked it: it has ended.
    case listenRefused(QuerySpec, tag: ListenTag?, RequestFailure)

    /// Reported exactly once for each write. `seq`: of the write's entry in the server's log, if it was executed and
    /// the server sends the seq.
    case writeAnswered(WriteID, RequestOutcome, seq: Int64? = nil)
    /// Reported exactly once for each request.
    case onDisconnectAnswered(RequestID, RequestOutcome)
    /// Reported exactly once for each request that was not cancelled.
    case getAnswered(RequestID, GetOutcome)
    /// Reported once for each wait that was not cancelled.
    case waitAnswered(RequestID, WaitOutcome)

    /// The login was accepted; with the server's data about it, if any.
    case signedIn(LoginAnswer?)
    /// No user is signed in any more.
    case signedOut
    /// The server refused or revoked the login. The machine retries with a new token.
    /// `count`: the number of consecutive failures.
    case signInFailed(RequestFailure, count: Int)
    /// The app has no token, for this reason: nothing is sent until it has one.
    case tokenMissing(reason: String)
    /// The server has asked clients never to connect to this database again. The machine does so only with the setting
    /// `retriesAfterShutdown`.
    case shutDown(reason: String)
    /// The server reports an error that belongs to no request, and mostly closes the connection then, for example because
    /// the data of a listen is too large. Limited in length and number.
    case serverError(String)
    /// The text of a login in debug mode.
    case securityDebug(String)
    /// An irregularity of the server, for the log. Limited in length and number.
    case note(String)
}

/// The reason why the server did not execute a request.
public struct RequestFailure: Error, Sendable, Equatable {
    public let status: RealtimeStatus
    /// The server's explanation, if any; of limited length.
    public let explanation: String?

    public init(status: RealtimeStatus, explanation: String? = nil) {
        self.status = status
        self.explanation = explanation
    }
}

/// The outcome of a write.
public enum RequestOutcome: Sendable, Equatable {
    case done
    case refused(RequestFailure)
    /// The write was sent, the connection ended, and the outcome is unknown. Only for transactions, which are not sent
    /// twice.
    case lost
    /// The owner cancelled the write before it was answered (`purgeWrites`). It may have been executed.
    case purged
}

/// The outcome of a get.
public enum GetOutcome: Sendable, Equatable {
    /// `seq`: the log position of the value, if the server sends it.
    case value(Node, seq: Int64? = nil)
    case refused(RequestFailure)
    /// There is no connection, or it ended before the answer.
    case lost
}

/// The outcome of a wait for an entry of the server's log.
public enum WaitOutcome: Sendable, Equatable {
    /// Everything up to the entry has been reported for all listens that were wanted when the wait began.
    case reached(seq: Int64)
    /// The server reveals nothing of its log to clients that may read nothing, or did not understand the request.
    case refused(RequestFailure)
    /// The server does not know the gateway's extension.
    case unsupported
}
