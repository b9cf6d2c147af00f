public import Tree
import Wire

/// What one database of a client says to its server, when, and what it makes of the answers. Pure: it has no clock, no
/// socket and no thread, and is confined to the thread of its database.
///
/// After each call (or several), the owner takes the effects and carries them out in order, then sees to it that
/// `timePassed` is called at `deadline`. Times are in milliseconds of a clock that never steps back.
///
///                  goOnline               server's greeting             login accepted, or no user
///     idle ------------------> opening -------------------> signingIn ----------------------------> ready
///       ^                      ^     |                          |                                     |
///       |     timePassed (1) |     +-----------+--------------+-------------------------------------+
///       |                      |                 | connection closed, failure, timeout, refused login
///       |                      |                 v
///       |                      +------ pausing(until)
///       |                                        |
///       +----------------------------------------+      goOffline, from any phase; shutdown by the server
///
/// (1) `goOnline` or a new token ends a pause, too.
///
/// If the server names another host, the machine closes the connection and goes to `opening` without a pause, at most
/// five times in a row. In `ready` it sends listens first, then `queue` (writes, onDisconnect operations and gets in the
/// order of the calls), and `waits` once the server has answered the listens that may resume. After a lost
/// connection the machine keeps listens, writes, onDisconnect operations and waits for the next one; it reports gets
/// and sent transactions as lost.
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

extension ConnectionMachine {
    /// When there is to be another connection.
    enum Again: Equatable {
        case never
        /// After a pause.
        case later
        /// The server has said where to go.
        case atOnce
    }

    /// The connection is over, or is to be, or did not come about.
    ///
    /// - Parameter closes: whether the transport is to close it; false where that has told of its end.
    mutating func end(reason: String, closes: Bool, _ again: Again, now: Int64) {
        guard let open = connection else {
            // Between two tries: gets have been waiting for the next one.
            if again == .never { lose() }
            return
        }
        let wasConnected = isConnected
        connection = nil
        if closes { effects.append(.close(reason: reason)) }
        login.connectionEnded()
        lose()
        if let greetedAt = open.greetedAt {
            if now - greetedAt >= settings.goodConnection { retry.reset() }
        } else if again == .later {
            // Nobody greets where the server had sent the client.
            place = ServerPlace(host: settings.host, port: settings.port)
        }
        if wasConnected { effects.append(.report(.disconnected(reason: reason))) }
        guard wantsOnline, !isShutDown, again != .never else {
            phase = .idle
            return
        }
        if again == .atOnce { return self.open(now: now) }
        let pause = retry.next()
        phase = .pausing(until: now + pause)
        if !wasConnected { effects.append(.report(.connectFailed(reason: reason, retryAfter: pause))) }
    }

    private mutating func lose() {
        for content in queue.connectionEnded() { tell(content, .lost) }
    }

    /// The server breaks the protocol.
    mutating func fail(_ reason: String, now: Int64) {
        end(
            reason: "the server sent what is no message of the protocol: \(Self.bounded(reason))", closes: true, .later,
            now: now)
    }

    /// Text of a server's, of a length that a log can bear.
    static func bounded(_ text: String, _ length: Int = 300) -> String {
        text.utf8.count <= length ? text : String(text.unicodeScalars.prefix(length)) + "…"
    }
}

extension ConnectionMachine {
    /// When `timePassed` wants to be called; nil for never. It changes with every call of the machine.
    public var deadline: Int64? {
        switch phase {
        case .idle: return nil
        case .pausing(let until): return until
        case .opening(let since), .signingIn(let since): return since + settings.connectTimeout
        case .ready:
            guard let connection else { return nil }
            let next = min(connection.lastSent + settings.keepAlive, connection.silenceEnds(settings))
            return [login.refreshAt, connection.waitsAgainAt].compactMap(\.self).reduce(next, min)
        }
    }

    /// Does what is due. To be called at `deadline` or a little later; calls before it do nothing.
    public mutating func timePassed(now: Int64) {
        switch phase {
        case .idle: return
        case .pausing(let until): if now >= until { open(now: now) }
        case .opening(let since):
            guard now >= since + settings.connectTimeout else { return }
            end(reason: "the server did not greet in time", closes: true, .later, now: now)
        case .signingIn(let since):
            guard now >= since + settings.connectTimeout else { return }
            if case .asked = login.token {
                tokenFailed(reason: "it did not come in time", now: now)
            } else {
                end(reason: "the server did not answer the login in time", closes: true, .later, now: now)
            }
        case .ready: keepUp(now: now)
        }
    }

    private mutating func keepUp(now: Int64) {
        guard let open = connection else { return }
        if now >= open.silenceEnds(settings) {
            guard open.pingedAt == nil else {
                return end(reason: "the server gives no sign of life", closes: true, .later, now: now)
            }
            connection?.pingedAt = now
            sendText(ClientMessage.ping.text ?? [], now: now)
        } else if now >= open.lastSent + settings.keepAlive {
            sendText(ClientMessage.keepAlive, now: now)
        }
        if let time = open.waitsAgainAt, now >= time, connection != nil {
            connection?.waitsAgainAt = nil
            sendWaits(now: now)
        }
        if let refreshAt = login.refreshAt, now >= refreshAt {
            login.refreshAt = nil
            effects.append(.askForToken(isForced: true))
        }
    }

    private mutating func sendText(_ text: [UInt8], now: Int64) {
        connection?.lastSent = now
        effects.append(.send(text))
    }
}

/// How long to pause between tries to connect: longer with each failure, up to a limit, and spread by chance so that the
/// clients of a server that comes back don't come all at once.
struct RetryDelay: Sendable {
    private let first: Int64
    private let longest: Int64
    private var upcoming: Double
    private var random: UInt64

    init(_ settings: ConnectionSettings, seed: UInt64) {
        first = settings.firstRetry
        longest = settings.longestRetry
        upcoming = Double(first)
        random = seed
    }

    /// Something has succeeded, or the app asks for a try: the next failure is a first one again.
    mutating func reset() { upcoming = Double(first) }

    /// The next pause is the longest one: what failed will fail again.
    mutating func giveUpForNow() { upcoming = Double(longest) }

    /// The pause after one more failure, in milliseconds: between half of what is due and all of it.
    mutating func next() -> Int64 {
        let pause = min(upcoming, Double(longest))
        upcoming = min(pause * 1.5, Double(longest))
        return Int64(pause / 2 + pause / 2 * fraction())
    }

    /// From 0 to 1, by the generator SplitMix64.
    private mutating func fraction() -> Double {
        random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Double((mixed ^ (mixed >> 31)) >> 11) / Double(1 << 53)
    }
}
