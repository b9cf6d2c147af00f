import HTTPServer
import Runtime
import Wire

/// WebSockets that are about to replace polling. The session and the socket may be on different loops; each loop does
/// its part in closures that the other one posts.
struct SocketUpgrades {
    private let context: RealtimeContext

    init(_ context: RealtimeContext) { self.context = context }

    // MARK: On the socket's loop

    /// Accepts the socket, and offers it to the session.
    func open(
        of id: String, host: String, _ exchange: HTTPExchange, _ connection: WebSocketConnection, accept: () -> Void
    ) {
        guard let sessionLoop = context.directory.sessionLoop(of: id) else {
            accept()
            exchange.send(WebSocketSessionTransport.frames(for: [ServerMessage.reset(host: host)]) ?? SharedBytes([]))
            return exchange.close()
        }
        let socket = exchange.reference
        let backlog = SocketBacklog()
        let limit = 2 * context.settings.maxMessageBytes
        connection.onMessage = { message in
            let count = message.count + 64
            guard backlog.receives(count, limit: limit) else { return false }
            Self.relay(message, to: id, sessionLoop, from: socket) { backlog.taken(count) }
            return true
        }
        connection.onSign = { sessionLoop.post(to: id) { $0.lastHeard = Clock.monotonicMilliseconds } }
        connection.onText = { sessionLoop.post(to: id) { $0.lastSaid = Clock.monotonicMilliseconds } }
        exchange.onDrain = {
            backlog.drained()
            sessionLoop.post(to: id) { $0.drained() }
        }
        exchange.onClose = { sessionLoop.post(to: id) { Self.closed(socket, of: $0) } }
        Self.offer(socket, backlog, to: id, sessionLoop, host: host)
        accept()
    }

    /// Passes a message to the session on its loop; always calls `taken` afterwards.
    private static func relay(
        _ message: [UInt8], to id: String, _ sessionLoop: any SessionLoop, from socket: ExchangeReference,
        _ taken: @escaping @Sendable () -> Void
    ) {
        sessionLoop.post(to: id) {
            socket.perform { $0.close() }
            taken()
        } _: { session in
            if !session.takeFromSocket(message, socket) { socket.perform { $0.close() } }
            taken()
        }
    }

    private static func offer(
        _ socket: ExchangeReference, _ backlog: SocketBacklog, to id: String, _ sessionLoop: any SessionLoop,
        host: String
    ) {
        sessionLoop.post(to: id) {
            decline(RelayedWebSocketTransport(socket, backlog), host: host)
        } _: { session in
            let transport = RelayedWebSocketTransport(socket, backlog)
            guard session.startUpgrade(transport) else { return decline(transport, host: host) }
            _ = transport.send(ServerMessage.upgradeOffer)
        }
    }

    // MARK: On the session's loop

    /// Declines the socket; the client continues polling.
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
    /// Begins the upgrade to a WebSocket. Returns false if the socket can't replace polling.
    func startUpgrade(_ socket: RelayedWebSocketTransport) -> Bool {
        guard transport is LongPollTransport, upgrade == nil, !isClosing, !isEnded else { return false }
        upgrade = (socket, TransportUpgrade(maxBytes: settings.maxMessageBytes))
        return true
    }

    /// The transport that answers polls.
    var pollingTransport: LongPollTransport? { formerTransport ?? transport as? LongPollTransport }

    func isOn(_ socket: ExchangeReference) -> Bool {
        (transport as? RelayedWebSocketTransport)?.socket == socket
    }

    /// Handles a message that arrived on a socket. Returns false if the socket must be closed.
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

    /// Handles the end of a socket that had not replaced polling: the client continues polling.
    func socketFailed(_ socket: ExchangeReference) {
        if upgrade?.transport.socket == socket { upgrade = nil }
    }

    /// Ends polling: the client sends nothing more by polling, and neither does the gateway. Returns false if the
    /// client sent an invalid message on the socket.
    func endPolling() -> Bool {
        guard let (socket, steps) = upgrade, let polling = transport as? LongPollTransport else { return true }
        upgrade = nil
        polling.onEnd = nil
        polling.onDrain = nil
        // The client would put aside messages that arrive on the socket before the end of polling, and then process
        // them all at once, which loses data (see `LongPollTransport.separate`).
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

/// The steps of a polling session's upgrade to a WebSocket (reference: rtdb-protocol 1.8). The client tests the socket
/// with pings, moves its sending to it (`a` on the socket), and ends its sending by polling (`n` there). The gateway
/// then ends its own sending by polling and continues on the socket. Messages that the client has sent on the socket
/// wait for its `n`, after which they belong.
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
        /// The client violates the protocol.
        case fail
    }

    /// Handles a message from the socket.
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
