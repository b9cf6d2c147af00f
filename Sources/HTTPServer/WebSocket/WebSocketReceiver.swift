/// Receives the bytes of a WebSocket client and returns its messages. Belongs to one loop's thread.
///
/// wslay's state of a connection takes over 8 kB. It is borrowed while a message is incomplete, and idle clients have
/// none.
public final class WebSocketReceiver {
    public enum Event {
        case text([UInt8])
        case binary
        case closed
        /// A message exceeds the limit. The output contains the close frame that reports it.
        case tooLong
        /// A control frame arrived: the peer is alive.
        case control
    }

    /// The control frames that must be sent to the client.
    private var output: [UInt8] = []
    private var boundary = FrameBoundary()
    private var parser: WebSocketParser?
    private let parsers: WebSocketParsers

    /// Whether part of a message has arrived, but not all of it.
    public var isWithinMessage: Bool { parser != nil }

    /// - Parameter parsers: the parsers of the connection's loop.
    public init(_ parsers: WebSocketParsers) { self.parsers = parsers }

    /// Handles received bytes, which are not kept. Returns false if the connection has to be closed, once `takeOutput`
    /// is sent.
    public func take(_ bytes: UnsafeRawBufferPointer, _ body: (Event) -> Void) -> Bool {
        guard let parser = parser ?? parsers.take() else { return false }
        self.parser = parser
        boundary.take(bytes)
        let isGood = parser.take(bytes)
        let events = parser.takeEvents()
        output += parser.takeOutput()
        if isGood, boundary.isBetweenMessages {
            parsers.giveBack(parser)
            self.parser = nil
        }
        for event in events { body(event) }
        return isGood
    }

    /// Returns the control frames that must be sent now.
    public func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }
}

/// The unused parsers of one loop. A loop needs one for each incomplete message; only a few are kept.
public final class WebSocketParsers {
    private var spare: [WebSocketParser] = []
    private let maxMessageBytes: Int
    private static let spareMax = 16

    /// - Parameter maxMessageBytes: a longer message ends the connection with the status 1009, "too big".
    public init(maxMessageBytes: Int) { self.maxMessageBytes = maxMessageBytes }

    /// Returns nil if memory is exhausted.
    func take() -> WebSocketParser? { spare.popLast() ?? WebSocketParser(maxMessageBytes: maxMessageBytes) }

    func giveBack(_ parser: WebSocketParser) {
        if spare.count < Self.spareMax { spare.append(parser) }
    }
}

/// Follows the frames of one peer through its bytes, in any number of pieces, to detect when no frame is incomplete. It
/// does not validate: wslay does, with the same bytes.
struct FrameBoundary {
    private var payloadLeft: UInt64 = 0
    /// The number of received bytes of the frame's head. The bytes of the mask are only counted.
    private var headCount: UInt8 = 0
    private var headSize: UInt8 = 2
    private var length: UInt64 = 0
    private var isInMessage = false
    private var isInPayload = false

    /// Whether the next byte begins a message or a control frame between messages.
    var isBetweenMessages: Bool { headCount == 0 && !isInPayload && !isInMessage }

    mutating func take(_ bytes: UnsafeRawBufferPointer) {
        var index = 0
        while index < bytes.count {
            if isInPayload {
                let part = min(UInt64(bytes.count - index), payloadLeft)
                payloadLeft -= part
                index += Int(part)
                if payloadLeft == 0 { isInPayload = false }
            } else {
                takeHead(bytes[index])
                index += 1
            }
        }
    }

    private mutating func takeHead(_ byte: UInt8) {
        headCount += 1
        switch headCount {
        case 1:
            length = 0
            // A control frame may come between the fragments of a message, and does not end the message.
            if byte & 0x08 == 0 { isInMessage = byte & 0x80 == 0 }
        case 2:
            let code = byte & 0x7F
            headSize = 2 + (code == 126 ? 2 : code == 127 ? 8 : 0) + (byte & 0x80 == 0 ? 0 : 4)
            if code < 126 { length = UInt64(code) }
            // The length of the head is known now: with the codes 126 and 127 it continues with bytes of the payload
            // length.
            lengthEnd = code == 126 ? 4 : code == 127 ? 10 : 2
        default:
            if headCount <= lengthEnd { length = length << 8 | UInt64(byte) }
        }
        guard headCount >= 2, headCount == headSize else { return }
        headCount = 0
        payloadLeft = length
        isInPayload = length > 0
    }

    private var lengthEnd: UInt8 = 2
}
