import HTTPServer
import Wire

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
