public import Tree
import Wire

/// Decides which messages one database of a client sends to its server and when, and handles the answers. Pure: it has
/// no clock, no socket and no thread, and is confined to the thread of its database.
///
/// After each call (or several), the owner takes the effects and executes them in order, then arranges that
/// `timePassed` is called at `deadline`. Times are in milliseconds of a monotonic clock.
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
/// five times in a row. In `ready` it sends listens first, then `queue` (writes, onDisconnect operations and gets in
/// the order of the calls), and `waits` once the server has answered the listens that may resume. After a lost
/// connection the machine keeps listens, writes, onDisconnect operations and waits for the next one; it reports gets
/// and sent transactions as lost.
public struct ConnectionMachine: Sendable {
    let settings: ConnectionSettings
    var effects: [ConnectionEffect] = []
    var phase = Phase.idle
    /// The present connection; not nil from `opening` on.
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
    /// The address of the next connection: from the settings, or the one to which the server has redirected the client.
    var server: ServerAddress
    /// The number of redirects since the last connection that lasted.
    var redirects = 0
    /// The previous session, which the server may discard.
    var lastSession: String?
    /// The number of bytes of the messages received over all connections: their texts, and the header that a WebSocket
    /// frame of that size has. TLS, HTTP, TCP, control frames and incomplete messages are not counted.
    public internal(set) var receivedBytes: Int64 = 0

    enum Phase: Sendable, Equatable {
        /// No connection is wanted.
        case idle
        /// Between two attempts.
        case pausing(until: Int64)
        /// From the attempt to connect to the server's greeting.
        case opening(since: Int64)
        /// Greeted; the token is not available yet, or the login is not answered.
        case signingIn(since: Int64)
        case ready
    }

    /// Creates a machine, which is offline at first.
    ///
    /// - Parameter seed: of the random numbers that spread attempts to connect over time.
    public init(_ settings: ConnectionSettings, seed: UInt64) {
        self.settings = settings
        retry = RetryDelay(settings, seed: seed)
        server = ServerAddress(host: settings.host, port: settings.port)
    }

    /// Takes the effects since the last call, in order.
    public mutating func takeEffects() -> [ConnectionEffect] {
        defer { effects = [] }
        return effects
    }

    /// Whether the server has greeted and the connection is open.
    public var isConnected: Bool {
        switch phase {
        case .idle, .pausing, .opening: false
        case .signingIn, .ready: true
        }
    }

    // MARK: Being online

    /// Connects at once, and reconnects whenever the connection ends. Does nothing while a connection is being opened
    /// or is open, and after the server has shut the database down.
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

    /// Ends the connection and opens none until `goOnline`. Gets and sent transactions are lost; all other requests
    /// wait.
    public mutating func goOffline(now: Int64) {
        wantsOnline = false
        end(reason: "the app went offline", closes: true, .never, now: now)
        phase = .idle
    }

    /// Begins an attempt to connect.
    mutating func open(now: Int64) {
        lastNumber += 1
        let number = ConnectionNumber(rawValue: lastNumber)
        connection = OpenConnection(number: number, maxMessageBytes: settings.maxMessageBytes, now: now)
        phase = .opening(since: now)
        if let isForced = login.askForConnection() { effects.append(.askForToken(isForced: isForced)) }
        effects.append(.open(server.address(settings, session: lastSession), number))
    }

    // MARK: Listening

    /// Adds a listen. `spec` is in the form that the server needs: one that loads all data is the default query, with
    /// `tag` nil. The listen is sent again over each connection until `unlisten`, or until it is reported as refused.
    public mutating func listen(_ spec: QuerySpec, tag: ListenTag?, now: Int64) {
        guard let serial = listens.add(spec, tag: tag) else { return }
        if phase == .ready { sendListen(serial, now: now) }
    }

    /// Stops a listen; its data is no longer reported.
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

    /// - Parameter hash: of the value that a transaction has read; with a hash the write is sent at most once.
    public mutating func write(_ write: PendingWrite, hash: String? = nil, now: Int64) {
        add(.write(write, hash: hash), now: now)
    }

    /// Holds or releases writes and onDisconnect operations: while they are held, none is sent until the user has
    /// signed in again.
    public mutating func holdWrites(_ isHeld: Bool, now: Int64) {
        areWritesHeld = isHeld
        sendQueued(now: now)
    }

    /// Cancels all unanswered writes and onDisconnect operations: each is reported as purged.
    public mutating func purgeWrites(now: Int64) {
        for content in queue.removeWrites() { report(content, .purged) }
        sendQueued(now: now)
    }

    /// Makes the server write a value once this connection has ended.
    public mutating func onDisconnectPut(_ id: RequestID, at path: Path, _ value: Node, now: Int64) {
        add(.onDisconnect(id, .onDisconnectPut(path, value)), now: now)
    }

    /// Makes the server merge changes once this connection has ended. Their paths are relative to `path`.
    public mutating func onDisconnectMerge(_ id: RequestID, at path: Path, _ changes: [Change], now: Int64) {
        let absolute = changes.map { Change(path: path.appending($0.path), value: $0.value) }
        add(.onDisconnect(id, .onDisconnectMerge(path, absolute)), now: now)
    }

    /// Cancels the onDisconnect operations at and below the path.
    public mutating func onDisconnectCancel(_ id: RequestID, at path: Path, now: Int64) {
        add(.onDisconnect(id, .onDisconnectCancel(path)), now: now)
    }

    /// Gets the data that a query selects from the server. The request waits while a connection is being opened;
    /// without one it is lost at once.
    public mutating func get(_ id: RequestID, _ spec: QuerySpec, now: Int64) {
        guard phase != .idle else { return effects.append(.report(.getAnswered(id, .lost))) }
        add(.get(id, spec), now: now)
    }

    /// Cancels a get; its outcome is not reported.
    public mutating func cancelGet(_ id: RequestID, now: Int64) { queue.removeGet(id) }

    /// Waits until all listens have been sent everything up to an entry of the server's log. The wait continues after
    /// lost connections.
    ///
    /// - Parameter path: a path that was read, if any: it shows the server that the client may learn about its log.
    public mutating func wait(_ id: RequestID, for seq: Int64, path: Path?, now: Int64) {
        waits.add(id, seq, path)
        sendWaits(now: now)
    }

    /// Cancels a wait; its outcome is not reported.
    public mutating func cancelWait(_ id: RequestID) { waits.remove(id) }

    private mutating func add(_ content: QueuedRequest.Content, now: Int64) {
        queue.add(content)
        sendQueued(now: now)
    }
}

extension ConnectionMachine {
    /// The time of the next connection.
    enum Again: Equatable {
        case never
        /// After a pause.
        case later
        /// After a pause of so many milliseconds.
        case after(Int64)
        /// The machine reconnects at once, to the host that the server has named.
        case atOnce
    }

    /// Handles a connection that has ended, has to be closed, or could not be opened.
    ///
    /// - Parameter closes: whether the transport has to close the connection; false if the transport has reported its
    ///   end.
    mutating func end(reason: String, closes: Bool, _ again: Again, now: Int64) {
        guard let open = connection else {
            // Between two attempts: gets have been waiting for the next one.
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
        } else if again != .atOnce, again != .never {
            // No server has greeted at the present address: the client returns to the configured one.
            server = ServerAddress(host: settings.host, port: settings.port)
        }
        if wasConnected { effects.append(.report(.disconnected(reason: reason))) }
        guard wantsOnline, !isShutDown, again != .never else {
            phase = .idle
            return
        }
        if again == .atOnce { return self.open(now: now) }
        let pause = if case .after(let time) = again { time } else { retry.next() }
        phase = .pausing(until: now + pause)
        if !wasConnected { effects.append(.report(.connectFailed(reason: reason, retryAfter: pause))) }
    }

    private mutating func lose() {
        for content in queue.connectionEnded() { report(content, .lost) }
    }

    /// Closes the connection because the server violated the protocol.
    mutating func fail(_ reason: String, now: Int64) {
        end(
            reason: "the server sent an invalid message: \(Self.bounded(reason))", closes: true, .later,
            now: now)
    }

    /// Returns text from the server, cut to a length suitable for a log.
    static func bounded(_ text: String, _ length: Int = 300) -> String {
        text.utf8.count <= length ? text : String(text.unicodeScalars.prefix(length)) + "…"
    }
}

extension ConnectionMachine {
    /// Notes that the owner leaves received data unprocessed for a while, so that the transport stops reading, or that
    /// the owner continues. Meanwhile the machine does not take the silence for the server's.
    public mutating func setReadingPaused(_ isPaused: Bool, now: Int64) {
        guard let open = connection, open.isReadingPaused != isPaused else { return }
        connection?.isReadingPaused = isPaused
        connection?.lastReceived = now
        connection?.owedSince = now
        connection?.pingedAt = nil
    }

    /// The time at which `timePassed` has to be called; nil for never. Every call of the machine may change it.
    public var deadline: Int64? {
        switch phase {
        case .idle: return nil
        case .pausing(let until): return until
        case .opening(let since), .signingIn(let since): return since + settings.connectTimeout
        case .ready:
            guard let connection else { return nil }
            let next = min(connection.lastSent + settings.keepAlive, connection.silenceEnds(settings))
            let silence = connection.isReadingPaused ? nil : settings.silence.map { connection.lastReceived + $0 }
            return [silence, login.refreshAt, connection.waitsAgainAt].compactMap(\.self).reduce(next, min)
        }
    }

    /// Executes due work. Call it at `deadline` or a little later; earlier calls have no effect.
    public mutating func timePassed(now: Int64) {
        switch phase {
        case .idle: return
        case .pausing(let until): if now >= until { open(now: now) }
        case .opening(let since):
            guard now >= since + settings.connectTimeout else { return }
            end(reason: "the server did not send its greeting in time", closes: true, .later, now: now)
        case .signingIn(let since):
            guard now >= since + settings.connectTimeout else { return }
            if case .asked = login.token {
                tokenFailed(reason: "the token did not arrive in time", now: now)
            } else {
                end(reason: "the server did not answer the login in time", closes: true, .later, now: now)
            }
        case .ready: keepUp(now: now)
        }
    }

    private mutating func keepUp(now: Int64) {
        guard let open = connection else { return }
        if let silence = settings.silence, !open.isReadingPaused, now >= open.lastReceived + silence {
            return end(reason: "the server has been silent for \(silence) ms", closes: true, .later, now: now)
        }
        if now >= open.silenceEnds(settings) {
            guard open.pingedAt == nil else {
                return end(reason: "the server does not respond", closes: true, .later, now: now)
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

/// The pauses between attempts to connect: longer with each failure, up to a limit, and randomized so that the clients
/// of a restarted server do not all reconnect at the same time.
struct RetryDelay: Sendable {
    private let first: Int64
    private let longest: Int64
    private let factor: Double
    private let jitter: Double
    private var upcoming: Double
    private var random: UInt64

    init(_ settings: ConnectionSettings, seed: UInt64) {
        first = settings.firstRetry
        longest = settings.longestRetry
        factor = max(1, settings.retryFactor)
        jitter = min(max(0, settings.retryJitter), 1)
        upcoming = Double(first)
        random = seed
    }

    /// Records a success, or an attempt requested by the app: the next failure counts as the first.
    mutating func reset() { upcoming = Double(first) }

    /// Makes the next pause the longest one, because another attempt would fail again.
    mutating func giveUpForNow() { upcoming = Double(longest) }

    /// Returns the pause after one more failure, in milliseconds: the computed pause, less a random share of its random
    /// part.
    mutating func next() -> Int64 {
        let pause = min(upcoming, Double(longest))
        upcoming = min(pause * factor, Double(longest))
        return Int64(pause * (1 - jitter) + pause * jitter * fraction())
    }

    /// Returns a number from 0 to 1, by the generator SplitMix64.
    private mutating func fraction() -> Double {
        random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Double((mixed ^ (mixed >> 31)) >> 11) / Double(1 << 53)
    }
}
