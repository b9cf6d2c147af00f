import HTTPServer
import Wire

/// The receiving side of a realtime WebSocket: bytes to frames to messages to the session. Belongs to its loop's thread.
final class WebSocketConnection {
    private let receiver: WebSocketReceiver
    private var segments: SegmentAssembler
    var session: RealtimeSession?

    init(_ receiver: WebSocketReceiver, maxMessageBytes: Int) {
        self.receiver = receiver
        segments = SegmentAssembler(maxBytes: maxMessageBytes)
    }

    /// Takes what the client sent. False when the connection must be closed.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var isGood = true
        let isOpen = receiver.take(bytes) { event in
            guard isGood else { return }
            switch event {
            case .text(let frame):
                switch segments.take(frame) {
                case .nothing: break
                case .message(let message): isGood = session?.take(message) ?? false
                case .error: isGood = false
                }
            // The protocol has text frames only.
            case .binary: isGood = false
            case .closed, .control: break
            }
        }
        return isOpen && isGood
    }

    /// Control frames that must go to the client.
    func takeOutput() -> [UInt8] { receiver.takeOutput() }
}
