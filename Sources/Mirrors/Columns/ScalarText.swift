/// Decimal numbers as text.
enum DecimalText {
    /// Limits far above any real amount of money.
    private static let maxBytes = 1_000
    private static let maxExponent = 1_000

    /// Accepts texts such as `-12.50` or `1e-7`, which PostgreSQL's numeric can read, within the limits above.
    static func isNumber(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty, bytes.count <= maxBytes else { return false }
        var index = 0
        if bytes[0] == UInt8(ascii: "-") || bytes[0] == UInt8(ascii: "+") { index = 1 }
        let start = index
        index = afterDigits(bytes, index)
        guard index > start else { return false }
        if index < bytes.count, bytes[index] == UInt8(ascii: ".") {
            let fraction = index + 1
            index = afterDigits(bytes, fraction)
            guard index > fraction else { return false }
        }
        if index < bytes.count, bytes[index] | 0x20 == UInt8(ascii: "e") {
            let exponent = String(decoding: bytes[(index + 1)...], as: UTF8.self)
            guard let value = Int(exponent), abs(value) <= maxExponent else { return false }
            return true
        }
        return index == bytes.count
    }

    private static func afterDigits(_ bytes: [UInt8], _ start: Int) -> Int {
        var index = start
        while index < bytes.count, bytes[index] &- 0x30 <= 9 { index += 1 }
        return index
    }
}

enum UUIDText {
    /// Accepts `8-4-4-4-12` hexadecimal digits, in either case.
    static func isUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        for (index, byte) in bytes.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard byte == UInt8(ascii: "-") else { return false }
            } else {
                guard (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20) else { return false }
            }
        }
        return true
    }

    /// Returns the 16 bytes of a UUID's text.
    static func bytes(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var high: UInt8?
        for byte in text.utf8 where byte != UInt8(ascii: "-") {
            let digit = byte <= 0x39 ? byte - 0x30 : (byte | 0x20) - 0x57
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return bytes
    }
}
