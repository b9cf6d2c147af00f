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
