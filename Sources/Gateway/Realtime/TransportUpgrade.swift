import Wire

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
