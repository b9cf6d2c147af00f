import HTTPServer
import Runtime
import Wire

/// A WebSocket that is to take over from polling. The session's loop and the socket's loop may be two: each does its part
/// in work that the other posts.
extension GatewayLoop {
    // MARK: On the socket's loop

    /// Accepts the socket, and offers it to the session.
    func openUpgrade(
        of id: String, host: String, _ exchange: HTTPExchange, _ connection: WebSocketConnection, accept: () -> Void
    ) {
        guard let home = gateway.sessions.link(of: id) else {
            accept()
            exchange.send(WebSocketTransport.frames(for: [ServerMessage.reset(host: host)]) ?? SharedBytes([]))
            return exchange.close()
        }
        let socket = exchange.reference
        let backlog = SocketBacklog()
        let limit = 2 * gateway.settings.maxMessageBytes
        connection.onMessage = { message in
            let count = message.count + 64
            guard backlog.receives(count, limit: limit) else { return false }
            home.post { loop in
                loop.takeRelayed(message, of: id, from: socket)
                backlog.taken(count)
            }
            return true
        }
        connection.onSign = {
            home.post { $0.sessions[id]?.lastHeard = Clock.monotonicMilliseconds }
        }
        connection.onText = {
            home.post { $0.sessions[id]?.lastSaid = Clock.monotonicMilliseconds }
        }
        exchange.onDrain = {
            backlog.drained()
            home.post { $0.sessions[id]?.drained() }
        }
        exchange.onClose = { home.post { $0.socketClosed(socket, of: id) } }
        home.post { $0.offerUpgrade(RelayedWebSocketTransport(socket, backlog), to: id, host: host) }
        accept()
    }

    // MARK: On the session's loop

    private func offerUpgrade(_ transport: RelayedWebSocketTransport, to id: String, host: String) {
        guard let session = sessions[id], session.startUpgrade(transport) else {
            // The client keeps polling.
            _ = transport.send(ServerMessage.reset(host: host))
            return transport.close()
        }
        _ = transport.send(ServerMessage.upgradeOffer)
    }

    private func takeRelayed(_ message: [UInt8], of id: String, from socket: ExchangeReference) {
        guard let session = sessions[id], session.takeFromSocket(message, socket) else {
            return socket.perform { $0.close() }
        }
    }

    private func socketClosed(_ socket: ExchangeReference, of id: String) {
        guard let session = sessions[id] else { return }
        if session.isOn(socket) { return ended(id) }
        session.socketFailed(socket)
    }
}
