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
