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
