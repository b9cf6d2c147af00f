public import Tree
public import Wire

/// What one database of a client says to its server, when, and what it makes of the answers. Pure: it has no clock, no
/// socket and no thread, and is confined to the thread of its database.
///
/// After each call (or several), the owner takes the effects and carries them out in order, then sees to it that
/// `timePassed` is called at `deadline`. Times are in milliseconds of a clock that never steps back.
public struct ConnectionMachine: Sendable {
    /// - Parameter seed: of the random numbers that spread tries to connect over time.
    public init(_ settings: ConnectionSettings, seed: UInt64) {}

    /// What is to be done since the last call, in order.
    public mutating func takeEffects() -> [ConnectionEffect] { [] }

    /// When `timePassed` wants to be called; nil for never.
    public var deadline: Int64? { nil }
    public mutating func timePassed(now: Int64) {}

    /// Whether the server has greeted and the connection stands.
    public var isConnected: Bool { false }

    // MARK: The owner's wishes

    /// Connects at once, and again whenever the connection ends. A machine begins offline.
    public mutating func goOnline(now: Int64) {}
    /// Ends the connection and makes none until `goOnline`. Gets are lost, sent transactions too; all else waits.
    public mutating func goOffline(now: Int64) {}

    /// The spec is as the server needs it: one that loads all data is the default query. `tag` is nil for those.
    public mutating func listen(_ spec: QuerySpec, tag: ListenTag?, now: Int64) {}
    public mutating func unlisten(_ spec: QuerySpec, tag: ListenTag?, now: Int64) {}

    /// - Parameter hash: of the value that a transaction has seen; with it the write is sent once at most.
    public mutating func write(_ write: PendingWrite, hash: String? = nil, now: Int64) {}
    /// Takes back everything that was not answered: each is told as purged.
    public mutating func purgeWrites(now: Int64) {}
    /// While writes are held, neither they nor onDisconnect operations are sent: until the user has signed in again.
    public mutating func holdWrites(_ isHeld: Bool, now: Int64) {}

    public mutating func onDisconnectPut(_ id: RequestID, at path: Path, _ value: Node, now: Int64) {}
    /// The changes' paths are relative to `path`.
    public mutating func onDisconnectMerge(_ id: RequestID, at path: Path, _ changes: [Change], now: Int64) {}
    public mutating func onDisconnectCancel(_ id: RequestID, at path: Path, now: Int64) {}

    public mutating func get(_ id: RequestID, _ spec: QuerySpec, now: Int64) {}
    /// The answer is not waited for any more; nothing is told.
    public mutating func cancelGet(_ id: RequestID, now: Int64) {}

    // MARK: Tokens

    /// The answer to `askForToken`, or news of the app's: who is signed in now. Nil: nobody.
    public mutating func tokenProvided(_ credential: AuthRequest?, now: Int64) {}
    /// The answer to `askForToken` where there can be no token now. Nothing is sent without one: the connection is closed
    /// and tried again later, or when `tokenProvided` is called.
    public mutating func tokenFailed(reason: String, now: Int64) {}
    /// A proof that the app is genuine; nil takes it back.
    public mutating func setAppCheckToken(_ token: String?, now: Int64) {}

    // MARK: The transport's events

    public mutating func transport(_ event: TransportEvent, of connection: ConnectionNumber, now: Int64) {}
}
