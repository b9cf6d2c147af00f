/// What the protocol allows in keys and paths of stored data (reference: rtdb-protocol 6.6 and 6.7).
public enum KeyRules {
    /// The most UTF-8 bytes a key may have.
    public static let maxKeyBytes = 768
    /// The most keys a path may have.
    public static let maxDepth = 32
    /// The most UTF-8 bytes a string value may have.
    public static let maxStringBytes = 10_485_760

    /// Why a key may not be stored.
    public enum Violation: Error, Equatable, Sendable {
        case empty
        case tooLong(bytes: Int)
        case forbidden(byte: UInt8)

        /// A sentence's end: `key …`.
        public var reason: String {
            switch self {
            case .empty: "is empty"
            case .tooLong(let bytes): "has \(bytes) bytes, more than \(maxKeyBytes)"
            case .forbidden(let byte) where byte < 0x20 || byte == 0x7F: "contains a control character"
            case .forbidden(let byte): "contains \"\(Character(UnicodeScalar(byte)))\""
            }
        }
    }

    /// The first rule that the key breaks, or nil.
    public static func violation(in key: UnsafeBufferPointer<UInt8>) -> Violation? {
        if key.isEmpty { return .empty }
        if key.count > maxKeyBytes { return .tooLong(bytes: key.count) }
        for byte in key where isForbidden(byte) { return .forbidden(byte: byte) }
        return nil
    }

    /// The first rule that the key breaks, or nil.
    public static func violation(in key: Key) -> Violation? {
        var text = key.text
        return text.withUTF8 { violation(in: $0) }
    }

    /// `. # $ / [ ]`, the controls 0x00 to 0x1F, and 0x7F.
    @inline(__always)
    static func isForbidden(_ byte: UInt8) -> Bool {
        if byte >= 0x80 { return false }
        return (byte < 0x40 ? forbiddenLow : forbiddenHigh) >> UInt64(byte & 0x3F) & 1 == 1
    }

    /// A bit for each forbidden byte below 0x40.
    private static let forbiddenLow: UInt64 = 0xFFFF_FFFF | 1 << 0x23 | 1 << 0x24 | 1 << 0x2E | 1 << 0x2F
    /// A bit for each forbidden byte from 0x40 to 0x7F.
    private static let forbiddenHigh: UInt64 = 1 << (0x5B - 0x40) | 1 << (0x5D - 0x40) | 1 << (0x7F - 0x40)
}
