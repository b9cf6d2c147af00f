import HTTPServer
import Wire

/// A realtime client on a WebSocket.
final class WebSocketTransport: RealtimeTransport {
    private let exchange: HTTPExchange
    private var isClosed = false

    init(_ exchange: HTTPExchange) { self.exchange = exchange }

    static var isWebSocket: Bool { true }

    var queuedBytes: Int { exchange.queuedOutputBytes }

    func send(_ message: [UInt8]) -> Bool {
        guard let frames = Self.frames(for: [message]) else { return false }
        send(frames: frames)
        return true
    }

    func send(frames: SharedBytes) {
        if !isClosed { exchange.send(frames) }
    }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(messages.reduce(0) { $0 + $1.count + 10 })
        for message in messages {
            guard let pieces = Segments.split(message) else { return nil }
            for piece in pieces { WebSocketFrame.appendText(piece, to: &bytes) }
        }
        return SharedBytes(bytes)
    }

    func ping() {
        if !isClosed, exchange.queuedOutputBytes == 0 { exchange.send(SharedBytes(WebSocketFrame.ping())) }
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        // A plain close: clients reconnect by themselves (reference: rtdb-protocol 1.4).
        exchange.send(SharedBytes(WebSocketFrame.close(1001)))
        exchange.close()
    }

    func abandon() {
        isClosed = true
        exchange.dropQueuedOutput()
        exchange.close()
    }
}
