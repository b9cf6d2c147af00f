import HTTPServer
import Runtime
import Wire

/// The receiving side of a realtime WebSocket: bytes to frames to messages. Belongs to its loop's thread.
final class WebSocketConnection {
    private let receiver: WebSocketReceiver
    private var segments: SegmentAssembler
    /// Bytes of a frame that has come in part, and what they and the frames before it take of memory.
    private var partialBytes = 0
    private var share: MemoryShare?
    private let memory: MemoryBudget
    /// Whose share of memory it takes.
    var address: () -> IPAddress?
    /// Takes a message; false when the connection must be closed.
    var onMessage: (([UInt8]) -> Bool)?
    /// Called when something has come, message or not.
    var onSign: (() -> Void)?
    /// Called when a text frame has come, message or not.
    var onText: (() -> Void)?
    /// Called when a message is longer than the limit. The connection then ends with the status 1009.
    var onTooLong: (() -> Void)?
    /// A close frame for the client, sent after the receiver's output.
    private var farewell: [UInt8] = []

    init(
        _ receiver: WebSocketReceiver, maxMessageBytes: Int, _ memory: MemoryBudget,
        _ address: @escaping () -> IPAddress?
    ) {
        self.receiver = receiver
        self.memory = memory
        self.address = address
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
                case .tooLong:
                    isGood = false
                    farewell = WebSocketFrame.close(Self.tooBig)
                    onTooLong?()
                }
            // The protocol has text frames only.
            case .binary: isGood = false
            case .tooLong:
                isGood = false
                onTooLong?()
            case .closed, .control: break
            }
        }
        partialBytes = receiver.isWithinMessage ? partialBytes + bytes.count : 0
        return isOpen && isGood && hasRoom()
    }

    /// The status of a close frame: a message is too big (RFC 6455, 7.4.1).
    private static let tooBig: UInt16 = 1009

    /// Less than this is not worth accounting for: every client sends its messages in some packets.
    private static let freeBytes = 16 * 1024

    /// Whether there is memory for what has come of a message.
    private func hasRoom() -> Bool {
        let held = partialBytes + segments.waitingBytes
        guard held > Self.freeBytes else {
            share = nil
            return true
        }
        if let share { return share.resize(to: held) }
        share = memory.take(held, for: address())
        return share != nil
    }

    /// Control frames that must go to the client.
    func takeOutput() -> [UInt8] {
        defer { farewell = [] }
        return receiver.takeOutput() + farewell
    }
}
