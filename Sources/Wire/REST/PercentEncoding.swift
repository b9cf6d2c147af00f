/// Percent-encoding of URL parts (RFC 3986).
public enum PercentEncoding {
    /// Encodes bytes: every byte except letters, digits and `-._~` becomes `%` and two hex digits.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let digits: StaticString = "0123456789ABCDEF"
        var text: [UInt8] = []
        for byte in bytes {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: text.append(byte)
            default:
                text += [UInt8(ascii: "%"), digits.utf8Start[Int(byte >> 4)], digits.utf8Start[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes bytes; returns nil if `%` is not followed by two hex digits. With `plusIsSpace`, decodes `+` as in
    /// forms.
    public static func decode(_ bytes: some Collection<UInt8>, plusIsSpace: Bool = false) -> [UInt8]? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var iterator = bytes.makeIterator()
        while let byte = iterator.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = iterator.next().flatMap(hexValue), let low = iterator.next().flatMap(hexValue) else {
                    return nil
                }
                decoded.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: decoded.append(UInt8(ascii: " "))
            default: decoded.append(byte)
            }
        }
        return decoded
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
