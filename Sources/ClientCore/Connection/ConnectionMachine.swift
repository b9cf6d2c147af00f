public import Tree
import Wire

/// What one database of a client says to its server, when, and what it makes of the answers. Pure: it has no clock, no
/// socket and no thread, and is confined to the thread of its database.
///
/// After each call (or several), the owner takes the effects and carries them out in order, then sees to it that
/// `timePassed` is called at `deadline`. Times are in milliseconds of a clock that never steps back.
public struct ConnectionMachine: Sendable {
    let settings: ConnectionSettings
    var effects: [ConnectionEffect] = []
    var phase = Phase.idle
    /// There is one from `opening` on.
    var connection: OpenConnection?
    var listens = WantedListens()
    var queue = RequestQueue()
    var waits = LogWaits()
    var login = Login()
    var retry: RetryDelay

    var wantsOnline = false
    var isShutDown = false
    var areWritesHeld = false
    private var lastNumber: UInt64 = 0
    /// Where the next connection goes: the settings' place, or where the server has sent the client.
    var place: ServerPlace
    /// How often the client was sent elsewhere since a connection that lasted.
    var redirects = 0
    /// The session that the server may forget: the one before.
    var lastSession: String?

    enum Phase: Sendable, Equatable {
        /// Nobody wants a connection.
        case idle
        /// Between two tries.
        case pausing(until: Int64)
        /// From the try to connect to the server's greeting.
        case opening(since: Int64)
        /// Greeted; the token isn't there yet, or the login not answered.
        case signingIn(since: Int64)
        case ready
    }

    /// A machine begins offline.
    ///
    /// - Parameter seed: of the random numbers that spread tries to connect over time.
    public init(_ settings: ConnectionSettings, seed: UInt64) {
        self.settings = settings
        retry = RetryDelay(settings, seed: seed)
        place = ServerPlace(host: settings.host, port: settings.port)
    }

    /// What is to be done since the last call, in order.
    public mutating func takeEffects() -> [ConnectionEffect] {
        defer { effects = [] }
        return effects
    }

    /// Whether the server has greeted and the connection stands.
    public var isConnected: Bool {
        switch phase {
        case .idle, .pausing, .opening: false
        case .signingIn, .ready: true
        }
    }

    // MARK: Being online

    /// Connects at once, and again whenever the connection ends. Does nothing while a connection is made or stands, and
    /// after the server has shut the database down.
    public mutating func goOnline(now: Int64) {
        wantsOnline = true
        guard !isShutDown else { return }
        switch phase {
        case .idle, .pausing:
            retry.reset()
            open(now: now)
        case .opening, .signingIn, .ready: break
        }
    }

    /// Ends the connection and makes none until `goOnline`. Gets are lost, sent transactions too; all else waits.
    public mutating func goOffline(now: Int64) {
        wantsOnline = false
        end(reason: "the app went offline", closes: true, .never, now: now)
        phase = .idle
    }

    /// Begins a try to connect.
    mutating func open(now: Int64) {
        lastNumber += 1
        let number = ConnectionNumber(rawValue: lastNumber)
        connection = OpenConnection(number: number, maxMessageBytes: settings.maxMessageBytes, now: now)
        phase = .opening(since: now)
        if let isForced = login.askForConnection() { effects.append(.askForToken(isForced: isForced)) }
        effects.append(.open(place.address(settings, session: lastSession), number))
    }

    // MARK: Listening

    /// The spec is as the server needs it: one that loads all data is the default query. `tag` is nil for those. A listen
    /// is sent again with each connection until `unlisten`, or until it is told as refused.
    public mutating func listen(_ spec: QuerySpec, tag: ListenTag?, now: Int64) {
        guard let serial = listens.add(spec, tag: tag) else { return }
        if phase == .ready { sendListen(serial, now: now) }
    }

    /// Nothing more is told of the listen.
    public mutating func unlisten(_ spec: QuerySpec, tag: ListenTag?, now: Int64) {
        guard let listen = listens.remove(spec, tag: tag), listen.isSent, phase == .ready else { return }
        let target = ListenTarget(path: spec.path, query: spec.loadsAllData ? nil : spec.query, tag: tag?.rawValue)
        let number = connection?.nextNumber
        send(.unlisten(target), as: .unimportant, now: now)
        if tag == nil, let number { connection?.ending[number] = spec.path }
    }

    mutating func sendListen(_ serial: UInt64, mayResume: Bool = true, now: Int64) {
        guard let listen = listens[serial] else { return }
        let number = nextRequest(.listen(serial), now: now)
        listens.noteSent(serial, number)
        let mayResume = mayResume && connection?.isExtended == true
        if mayResume { connection?.resuming.insert(serial) }
        effects.append(
            .sendListen(ListenRequest(spec: listen.spec, tag: listen.tag, number: number, mayResume: mayResume)))
    }

    // MARK: Requests

    /// - Parameter hash: of the value that a transaction has seen; with it the write is sent once at most.
    public mutating func write(_ write: PendingWrite, hash: String? = nil, now: Int64) {
        add(.write(write, hash: hash), now: now)
    }

    /// While writes are held, neither they nor onDisconnect operations are sent: until the user has signed in again.
    public mutating func holdWrites(_ isHeld: Bool, now: Int64) {
        areWritesHeld = isHeld
        sendQueued(now: now)
    }

    /// Takes back all writes and onDisconnect operations that were not answered: each is told as purged.
    public mutating func purgeWrites(now: Int64) {
        for content in queue.removeWrites() { tell(content, .purged) }
        sendQueued(now: now)
    }

    /// Has the server write a value once this connection has ended.
    public mutating func onDisconnectPut(_ id: RequestID, at path: Path, _ value: Node, now: Int64) {
        add(.onDisconnect(id, .onDisconnectPut(path, value)), now: now)
    }

    /// Has the server merge changes once this connection has ended. Their paths are relative to `path`.
    public mutating func onDisconnectMerge(_ id: RequestID, at path: Path, _ changes: [Change], now: Int64) {
        let absolute = changes.map { Change(path: path.appending($0.path), value: $0.value) }
        add(.onDisconnect(id, .onDisconnectMerge(path, absolute)), now: now)
    }

    /// Takes back what the server was to do at the path and below.
    public mutating func onDisconnectCancel(_ id: RequestID, at path: Path, now: Int64) {
        add(.onDisconnect(id, .onDisconnectCancel(path)), now: now)
    }

    /// Asks the server for what a query selects. While a connection is being made the question waits for it; without one
    /// it is lost at once.
    public mutating func get(_ id: RequestID, _ spec: QuerySpec, now: Int64) {
        guard phase != .idle else { return effects.append(.report(.getAnswered(id, .lost))) }
        add(.get(id, spec), now: now)
    }

    /// The answer is not waited for any more; nothing is told.
    public mutating func cancelGet(_ id: RequestID, now: Int64) { queue.removeGet(id) }

    /// Asks to be told when all listens have been told everything up to an entry of the server's log. Waits through lost
    /// connections.
    ///
    /// - Parameter path: a place that was read, if any: it shows the server that the client may know of its log.
    public mutating func wait(_ id: RequestID, for seq: Int64, path: Path?, now: Int64) {
        waits.add(id, seq, path)
        sendWaits(now: now)
    }

    /// Nothing is told of the wait any more.
    public mutating func cancelWait(_ id: RequestID) { waits.remove(id) }

    private mutating func add(_ content: QueuedRequest.Content, now: Int64) {
        queue.add(content)
        sendQueued(now: now)
    }
}
