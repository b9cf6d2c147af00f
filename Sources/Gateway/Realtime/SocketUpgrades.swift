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
