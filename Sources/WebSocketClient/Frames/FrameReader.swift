/// Parses a server's frames from pieces of any size (RFC 6455 5). Pure.
package struct FrameReader {
    package enum Event: Equatable {
        case text([UInt8])
        case ping([UInt8])
        case pong
        /// The code is 1005 if the peer sent none.
        case close(code: UInt16, reason: String)
    }

    /// A protocol violation of the peer, after which the connection can't continue.
    package struct Violation: Error, Equatable {
        /// The code for our close frame.
        package let code: UInt16
        package let reason: String
    }

    private let maxMessageBytes: Int
    /// The received bytes of a frame's head.
    private var head: [UInt8] = []
    private var headSize = 2
    private var opcode: UInt8 = 0
    private var isLastFragment = true
    /// The missing bytes of the frame whose head was parsed; nil between frames.
    private var payloadLeft: Int?
    private var isInMessage = false
    private var message: [UInt8] = []
    private var control: [UInt8] = []

    package init(maxMessageBytes: Int) { self.maxMessageBytes = maxMessageBytes }

    /// The received bytes of an incomplete message.
    var waitingBytes: Int { message.count }

    /// Parses the next bytes and passes the events that they complete to `report`, in order.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ report: (Event) -> Void
    ) throws(Violation) {
        var index = 0
        while index < bytes.count {
            if let left = payloadLeft {
                let count = min(left, bytes.count - index)
                let piece = UnsafeRawBufferPointer(rebasing: bytes[index..<index + count])
                if opcode >= 8 { control.append(contentsOf: piece) } else { message.append(contentsOf: piece) }
                index += count
                payloadLeft = left - count
            } else {
                head.append(bytes[index])
                index += 1
                try readHead()
            }
            if payloadLeft == 0 {
                payloadLeft = nil
                if let event = try finishFrame() { report(event) }
            }
        }
    }

    private mutating func readHead() throws(Violation) {
        guard head.count >= headSize else { return }
        let code = head[1] & 0x7F
        if head.count == 2 {
            try judge(head[0], head[1])
            headSize = 2 + (code == 126 ? 2 : code == 127 ? 8 : 0)
            guard headSize == 2 else { return }
        }
        var length = UInt64(code)
        if code >= 126 { length = head[2...].reduce(0) { $0 << 8 | UInt64($1) } }
        opcode = head[0] & 0x0F
        isLastFragment = head[0] & 0x80 != 0
        guard opcode >= 8 || length <= UInt64(maxMessageBytes - message.count) else {
            throw Violation(code: 1009, reason: "a message of more than \(maxMessageBytes) bytes")
        }
        // Reserves capacity for the announced bytes, up to a limit. Later fragments rely on the array's own growth:
        // reserving for each of them would copy all earlier fragments every time.
        if opcode < 8, message.isEmpty { message.reserveCapacity(min(Int(length), 1 << 16)) }
        payloadLeft = Int(length)
        head.removeAll(keepingCapacity: true)
        headSize = 2
    }

    private func judge(_ first: UInt8, _ second: UInt8) throws(Violation) {
        let opcode = first & 0x0F
        let isLast = first & 0x80 != 0
        guard first & 0x70 == 0 else { throw Self.protocolError("a frame of an extension that was not requested") }
        guard second & 0x80 == 0 else { throw Self.protocolError("a masked frame") }
        switch opcode {
        case 0: guard isInMessage else { throw Self.protocolError("a continuation frame without a message") }
        case 1: guard !isInMessage else { throw Self.protocolError("a message within a message") }
        case 2: throw Violation(code: 1003, reason: "a binary message")
        case 8, 9, 10:
            guard isLast, second & 0x7F < 126 else { throw Self.protocolError("a control frame that is too long") }
        default: throw Self.protocolError("a frame of an unknown kind")
        }
    }

    private mutating func finishFrame() throws(Violation) -> Event? {
        guard opcode < 8 else {
            defer { control.removeAll(keepingCapacity: true) }
            switch opcode {
            case 9: return .ping(control)
            case 10: return .pong
            default: return try Self.close(control)
            }
        }
        isInMessage = !isLastFragment
        guard isLastFragment else { return nil }
        let text = message
        message = []
        guard Self.isUTF8(text) else { throw Violation(code: 1007, reason: "a text that is not UTF-8") }
        return .text(text)
    }

    private static func close(_ payload: [UInt8]) throws(Violation) -> Event {
        guard payload.count >= 2 else {
            guard payload.isEmpty else { throw protocolError("a close frame of one byte") }
            return .close(code: 1005, reason: "")
        }
        return .close(
            code: UInt16(payload[0]) << 8 | UInt16(payload[1]), reason: String(decoding: payload[2...], as: UTF8.self))
    }

    private static func isUTF8(_ bytes: [UInt8]) -> Bool { (try? UTF8Span(validating: bytes.span)) != nil }

    private static func protocolError(_ reason: String) -> Violation { Violation(code: 1002, reason: reason) }
}
