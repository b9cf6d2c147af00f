import HTTPServer
import Runtime
import Wire

/// The receiving side of a realtime WebSocket: converts bytes to frames to messages. Belongs to its loop's thread.
final class WebSocketConnection {
    private let receiver: WebSocketReceiver
    private var segments: SegmentAssembler
    /// The bytes of an incomplete frame, and the memory share of these bytes and of earlier frames of the message.
    private var partialBytes = 0
    private var share: MemoryShare?
    private let memory: MemoryBudget
    /// Returns the address whose share of the memory budget is used.
    var address: () -> IPAddress?
    /// Handles a message; returns false if the connection must be closed.
    var onMessage: (([UInt8]) -> Bool)?
    /// Called when any bytes have arrived.
    var onSign: (() -> Void)?
    /// Called when a text frame has arrived, even if it completes no message.
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

    /// Handles received bytes. Returns false if the connection must be closed.
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

    /// Less memory than this is not accounted for: every client sends its messages in several packets.
    private static let freeBytes = 16 * 1024

    /// Returns whether the memory budget suffices for the received part of a message.
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

    /// Returns the control frames that must be sent to the client.
    func takeOutput() -> [UInt8] {
        defer { farewell = [] }
        return receiver.takeOutput() + farewell
    }
}
