/// Frames that the server sends, as bytes. They are not encoded by wslay, which queues for one connection: all
/// connections that receive the same message share these bytes.
public enum WebSocketFrame {
    /// Returns an unmasked, unfragmented text frame.
    public static func text(_ payload: some Collection<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(payload.count + 10)
        appendText(payload, to: &bytes)
        return bytes
    }

    /// Appends a text frame, so that the frames of one message become one piece of output.
    public static func appendText(_ payload: some Collection<UInt8>, to bytes: inout [UInt8]) {
        appendHeader(opcode: 1, length: payload.count, to: &bytes)
        bytes.append(contentsOf: payload)
    }

    /// Returns a ping without a payload (RFC 6455 5.5.2).
    public static func ping() -> [UInt8] { [0x89, 0] }

    /// Returns a close frame with a status code.
    public static func close(_ code: UInt16) -> [UInt8] { [0x88, 2, UInt8(code >> 8), UInt8(code & 0xFF)] }

    private static func appendHeader(opcode: UInt8, length: Int, to bytes: inout [UInt8]) {
        bytes.append(0x80 | opcode)
        switch length {
        case ..<126: bytes.append(UInt8(length))
        case ..<65_536:
            bytes.append(126)
            bytes.append(UInt8(length >> 8))
            bytes.append(UInt8(length & 0xFF))
        default:
            bytes.append(127)
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: length >> shift))
            }
        }
    }
}
