import HTTPServer
import Runtime
import Wire

/// WebSockets that are to take over from polling. The session's loop and the socket's loop may be two: each does its part
/// in work that the other posts.
struct SocketUpgrades {
    private let context: RealtimeContext

    init(_ context: RealtimeContext) { self.context = context }

    // MARK: On the socket's loop

    /// Accepts the socket, and offers it to the session.
    func open(
        of id: String, host: String, _ exchange: HTTPExchange, _ connection: WebSocketConnection, accept: () -> Void
    ) {
        guard let home = context.directory.home(of: id) else {
            accept()
            exchange.send(WebSocketTransport.frames(for: [ServerMessage.reset(host: host)]) ?? SharedBytes([]))
            return exchange.close()
        }
        let socket = exchange.reference
        let backlog = SocketBacklog()
        let limit = 2 * context.settings.maxMessageBytes
        connection.onMessage = { message in
            let count = message.count + 64
            guard backlog.receives(count, limit: limit) else { return false }
            Self.relay(message, to: id, home, from: socket) { backlog.taken(count) }
            return true
        }
        connection.onSign = { home.post(to: id) { $0.lastHeard = Clock.monotonicMilliseconds } }
        connection.onText = { home.post(to: id) { $0.lastSaid = Clock.monotonicMilliseconds } }
        exchange.onDrain = {
            backlog.drained()
            home.post(to: id) { $0.drained() }
        }
        exchange.onClose = { home.post(to: id) { Self.closed(socket, of: $0) } }
        Self.offer(socket, backlog, to: id, home, host: host)
        accept()
    }

    /// Has the session take a message from its loop's side; `taken` follows in any case.
    private static func relay(
        _ message: [UInt8], to id: String, _ home: any SessionHome, from socket: ExchangeReference,
        _ taken: @escaping @Sendable () -> Void
    ) {
        home.post(to: id) {
            socket.perform { $0.close() }
            taken()
        } _: { session in
            if !session.takeFromSocket(message, socket) { socket.perform { $0.close() } }
            taken()
        }
    }

    private static func offer(
        _ socket: ExchangeReference, _ backlog: SocketBacklog, to id: String, _ home: any SessionHome, host: String
    ) {
        home.post(to: id) {
            decline(RelayedWebSocketTransport(socket, backlog), host: host)
        } _: { session in
            let transport = RelayedWebSocketTransport(socket, backlog)
            guard session.startUpgrade(transport) else { return decline(transport, host: host) }
            _ = transport.send(ServerMessage.upgradeOffer)
        }
    }

    // MARK: On the session's loop

    /// The client keeps polling.
    private static func decline(_ transport: RelayedWebSocketTransport, host: String) {
        _ = transport.send(ServerMessage.reset(host: host))
        transport.close()
    }

    private static func closed(_ socket: ExchangeReference, of session: RealtimeSession) {
        if session.isOn(socket) { return session.host.ended(session.id) }
        session.socketFailed(socket)
    }
}

extension RealtimeSession {
    /// A WebSocket has come for this session. False where it can't take over.
    func startUpgrade(_ socket: RelayedWebSocketTransport) -> Bool {
        guard transport is LongPollTransport, upgrade == nil, !isClosing, !isEnded else { return false }
        upgrade = (socket, TransportUpgrade(maxBytes: settings.maxMessageBytes))
        return true
    }

    /// Where polls are answered.
    var pollingTransport: LongPollTransport? { formerTransport ?? transport as? LongPollTransport }

    func isOn(_ socket: ExchangeReference) -> Bool {
        (transport as? RelayedWebSocketTransport)?.socket == socket
    }

    /// Takes a message that came on a socket. False when the socket must be closed.
    func takeFromSocket(_ message: [UInt8], _ socket: ExchangeReference) -> Bool {
        if isOn(socket) { return take(message) }
        guard let transport = upgrade?.transport, transport.socket == socket else { return false }
        switch upgrade?.steps.take(message) {
        case .nothing: return true
        case .answer(let answer): return transport.send(answer)
        case .fail, nil:
            upgrade = nil
            return false
        }
    }

    /// A socket ended that had not taken over: the client goes on with polling.
    func socketFailed(_ socket: ExchangeReference) {
        if upgrade?.transport.socket == socket { upgrade = nil }
    }

    /// The client sends nothing more by polling, and neither does the gateway from now on. False when what the client
    /// sent on the socket is no message.
    func endPolling() -> Bool {
        guard let (socket, steps) = upgrade, let polling = transport as? LongPollTransport else { return true }
        upgrade = nil
        polling.onEnd = nil
        polling.onDrain = nil
        // What the client gets on the socket before the end of polling it would put aside and take all at once then,
        // which loses data (see `LongPollTransport.separate`).
        socket.hold()
        socket.onIdle = { [weak self] in self?.drained() }
        polling.onFinish = { [weak socket] in socket?.release() }
        polling.finish(with: ServerMessage.endOfTransmission)
        formerTransport = polling
        polling.segments = nil
        transport = socket
        return steps.waiting.allSatisfy { take($0) }
    }
}

/// A polling session's way to a WebSocket (reference: rtdb-protocol 1.8). The client tries the socket with pings, moves
/// its sending to it (`a` on the socket), and ends its sending by polling (`n` there); the gateway then ends its own by
/// polling and goes on on the socket. What the client has sent on the socket waits for its `n`, behind which it belongs.
///
/// A state machine without I/O.
struct TransportUpgrade {
    private(set) var waiting: [[UInt8]] = []
    private var waitingBytes = 0
    private var isMoved = false
    private let maxBytes: Int

    init(maxBytes: Int) { self.maxBytes = maxBytes }

    enum Step: Equatable {
        case nothing
        case answer([UInt8])
        /// The client doesn't keep to the protocol.
        case fail
    }

    /// Takes a message from the socket.
    mutating func take(_ message: [UInt8]) -> Step {
        switch try? ClientMessageParser.parse(message) {
        case .ping: return .answer(ServerMessage.pong)
        case .control("a"):
            isMoved = true
            return .nothing
        case .control: return .nothing
        case .request:
            waitingBytes += message.count + 64
            guard isMoved, waitingBytes <= maxBytes else { return .fail }
            waiting.append(message)
            return .nothing
        case nil: return .fail
        }
    }
}
