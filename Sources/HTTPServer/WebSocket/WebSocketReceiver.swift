/// Takes the bytes of a WebSocket client and gives its messages. Belongs to one loop's thread.
///
/// wslay's state of a connection is over 8 kB: it is lent while a message is half received, and idle clients have none.
public final class WebSocketReceiver {
    public enum Event {
        case text([UInt8])
        case binary
        case closed
        /// A message is longer than the limit. The close frame that says so is part of the output.
        case tooLong
        /// Any frame came: the peer is alive.
        case control
    }

    /// Bytes of control frames that must go to the client.
    private var output: [UInt8] = []
    private var boundary = FrameBoundary()
    private var parser: WebSocketParser?
    private let parsers: WebSocketParsers

    /// Whether part of a message has come, and not all of it.
    public var isWithinMessage: Bool { parser != nil }

    /// - Parameter parsers: those of the connection's loop.
    public init(_ parsers: WebSocketParsers) { self.parsers = parsers }

    /// Takes what the peer sent; the bytes are not kept. False when the connection has to be closed, once `takeOutput` is
    /// sent.
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

    /// The control frames that must be sent now.
    public func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }
}

/// The parsers of one loop that nobody is using: as many as messages are half received at a time, and no more than a few.
public final class WebSocketParsers {
    private var spare: [WebSocketParser] = []
    private let maxMessageBytes: Int
    private static let spareMax = 16

    /// - Parameter maxMessageBytes: a longer message ends the connection with the status 1009, "too big".
    public init(maxMessageBytes: Int) { self.maxMessageBytes = maxMessageBytes }

    /// Nil without memory for one.
    func take() -> WebSocketParser? { spare.popLast() ?? WebSocketParser(maxMessageBytes: maxMessageBytes) }

    func giveBack(_ parser: WebSocketParser) {
        if spare.count < Self.spareMax { spare.append(parser) }
    }
}

/// Follows the frames of one peer through its bytes, however these are cut, to know when none is half received. It judges
/// nothing: that is wslay's part, which is given the same bytes.
struct FrameBoundary {
    private var payloadLeft: UInt64 = 0
    /// The bytes of a frame's head that have come; of what lies behind the length (the mask) only how many.
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
            // A control frame may come between the fragments of a message, and ends none.
            if byte & 0x08 == 0 { isInMessage = byte & 0x80 == 0 }
        case 2:
            let code = byte & 0x7F
            headSize = 2 + (code == 126 ? 2 : code == 127 ? 8 : 0) + (byte & 0x80 == 0 ? 0 : 4)
            if code < 126 { length = UInt64(code) }
            // From here on the head's length is known: those of 126 and 127 begin with bytes of the length.
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
