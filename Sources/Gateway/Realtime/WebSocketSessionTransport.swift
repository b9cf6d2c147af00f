import HTTPServer
import Wire

/// A realtime client on a WebSocket.
final class WebSocketSessionTransport: SessionTransport {
    private let exchange: HTTPExchange
    private var isClosed = false
    /// Whether output waits for `sendCollected`, and the waiting output.
    private var isCollecting = false
    private var collected: [UInt8] = []
    /// Maximum size of the waiting output in bytes.
    private static let collectedMax = 64 * 1024

    init(_ exchange: HTTPExchange) { self.exchange = exchange }

    static var isWebSocket: Bool { true }

    var queuedBytes: Int { exchange.queuedOutputBytes + collected.count }

    func send(_ message: [UInt8]) -> Bool {
        if isCollecting, !isClosed, message.count <= Segments.maxUnits {
            WebSocketFrame.appendText(message, to: &collected)
            if collected.count > Self.collectedMax { flush() }
            return true
        }
        guard let frames = Self.frames(for: [message]) else { return false }
        send(frames: frames)
        return true
    }

    func send(frames: SharedBytes) {
        guard !isClosed else { return }
        flush()
        exchange.send(frames)
    }

    func beginCollecting() -> Bool {
        guard !isCollecting, !isClosed else { return false }
        isCollecting = true
        return true
    }

    func sendCollected() {
        flush()
        isCollecting = false
    }

    /// Sends the waiting output; later output may wait again.
    private func flush() {
        guard !collected.isEmpty else { return }
        exchange.send(SharedBytes(collected))
        collected = []
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
        sendCollected()
        isClosed = true
        // A plain close frame: clients reconnect by themselves (reference: rtdb-protocol 1.4).
        exchange.send(SharedBytes(WebSocketFrame.close(1001)))
        exchange.close()
    }

    func abandon() {
        isClosed = true
        collected = []
        exchange.dropQueuedOutput()
        exchange.close()
    }
}
