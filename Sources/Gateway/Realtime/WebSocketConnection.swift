import HTTPServer
import Wire

/// The receiving side of a realtime WebSocket: bytes to frames to messages. Belongs to its loop's thread.
final class WebSocketConnection {
    private let receiver: WebSocketReceiver
    private var segments: SegmentAssembler
    /// Takes a message; false when the connection must be closed.
    var onMessage: (([UInt8]) -> Bool)?
    /// Called when something has come, message or not.
    var onSign: (() -> Void)?
    /// Called when a text frame has come, message or not.
    var onText: (() -> Void)?

    init(_ receiver: WebSocketReceiver, maxMessageBytes: Int) {
        self.receiver = receiver
        segments = SegmentAssembler(maxBytes: maxMessageBytes)
    }

    /// Takes what the client sent. False when the connection must be closed.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var isGood = true
        onSign?()
        let isOpen = receiver.take(bytes) { event in
            guard isGood else { return }
            switch event {
            case .text(let frame):
                onText?()
                switch segments.take(frame) {
                case .nothing: break
                case .message(let message): isGood = onMessage?(message) ?? false
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
